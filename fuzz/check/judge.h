// SPDX-License-Identifier: Apache-2.0
//
// Judges the outputs of a dump, or those of a target that was run on its inputs, by the oracle. There
// is one verdict an output, the wrong rows if they can be told, and the arbiter's value for the worst
// element of each output that fails; and, as a second tier, the errors in units of honest kernels'.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/baseline/honest_errors.h"
#include "fuzz/check/sample.h"
#include "fuzz/examine/result.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {

// counted_rows is set if the results are those of a larger problem than the sample.
struct JudgeDumpOptions : oracle::SweepOptions {
  double arbiter_cost = 5e7;  // in the units of oracle::Arbiter::Cost, for all elements together
  bool honest_errors = true;  // the second tier as well
  uint64_t seed = 1;          // of the second tier
  bool deep = false;          // as in HonestErrorOptions
};

struct JudgedOutput {
  oracle::OutputVerdict
      verdict;          // its row is that of the sample; `fail` counts suspect elements as well
  int64_t suspect = 0;  // elements that break what is assumed alone (fuzz/examine/tiers.h)
  std::vector<SuspectReading> readings;  // where all that fail are suspect
  int64_t dump_row = -1;       // the same in the dump; for grad_weight the column of the vocabulary
  std::string arbiter;         // 40 digits of the worst element, if it failed and was asked about
  std::string arbiter_silent;  // why it was not asked, if the output failed
  double arbiter_seconds = 0;  // about what it would have taken, where that alone is why
  kernel::DType dtype = kernel::DType::kF32;  // of the results

  int64_t wrong() const { return verdict.fail - suspect; }
};

struct DumpVerdict {
  std::vector<JudgedOutput> outputs;
  // Indices in the dump, ascending, of rows whose logprob, entropy or lse fails; empty for a sample of
  // more than kMaxWatchedRows rows.
  std::vector<int64_t> wrong_rows;
  int64_t judged = 0;  // elements that passed or failed
  int64_t wrong = 0, suspect = 0;
  oracle::ConventionsSeen conventions;
  HonestErrors honest;
  HonestErrors over_all_rows;  // of grad_weight alone, where the rows are a sample of the dump's
  std::string fault;         // not empty: the harness contradicted itself
  bool interrupted = false;  // true if not everything was judged
};

inline constexpr int64_t kMaxWatchedRows = 4096;

// Judges by the description's contract, and by what is assumed of the keys that it leaves out. With a
// reduction, logprob is judged as that of the same problem without one.
DumpVerdict JudgeDump(const DumpSample& sample, const kernel::Results& results,
                      const Description& description, const JudgeDumpOptions& options);

}  // namespace plumbline::fuzz

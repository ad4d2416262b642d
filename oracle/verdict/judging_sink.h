// SPDX-License-Identifier: Apache-2.0
//
// Judges rows of elements as the sweep hands them out. Nothing of the size of a gradient is kept.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/output.h"
#include "oracle/verdict/element_row.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle {

// An element that the caller wants to see. (row, column) is as in OutputVerdict. JudgingSink fills
// in the rest.
struct Watched {
  Output output = Output::kLogprob;
  int64_t row = 0, column = 0;
  Element expected;
  double got = 0;
  bool failed = false;
};

struct Judgement {
  std::vector<OutputVerdict> outputs;  // one for every output present in results
  int64_t first_invalid_row = -1;      // the row that an output of that name must report; -1: none
  // Not empty: some bound was NaN or negative, which is a fault of the harness. It names the element.
  std::string fault;
  bool interrupted = false;  // SweepOptions::interrupt was raised: some elements were not judged
};

// Judges each row for several sets of results, all with the same outputs present. What it refers to
// must outlive it.
class JudgingSink final : public ElementSink {
 public:
  // `watched` is empty, or has a list for each set of results. `also` may be null.
  JudgingSink(std::span<const kernel::Results> results, std::span<std::vector<Watched>> watched,
              const Promises& promises, ElementSink* also = nullptr);
  void Take(const ElementRow& row) override;
  std::vector<Judgement> judgements;  // of each set of results

 private:
  void JudgeSet(const ElementRow& row, size_t set);

  std::span<const kernel::Results> results_;
  std::span<std::vector<Watched>> watched_;
  Promises promises_;
  ElementSink* also_;                         // is handed every row as well
  std::array<size_t, kOutputs.size()> at_{};  // an output's place among a judgement's
  std::mutex mutex_;
};

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0
//
// Checks of a call's outputs against each other and against its inputs that need no logit and no
// oracle: sums that are 0, two ways to the same number, inequalities. A check costs what reading the
// outputs costs. fuzz/consistency/CONSISTENCY.md derives each tolerance and says what a check cannot
// see.

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// kSuspect: beyond what is usual, and within the tolerance that is proven. kSaysNothing: the tolerance
// is no less than what is compared.
enum class ConsistencyVerdict : uint8_t { kHolds, kSuspect, kWrong, kSaysNothing };
std::string_view Name(ConsistencyVerdict verdict);  // "holds", "suspect", "wrong", "says nothing"

struct ConsistencyCheck {
  std::string_view name;                             // "column-sums"
  oracle::Output output = oracle::Output::kLogprob;  // whose value is blamed
  ConsistencyVerdict verdict = ConsistencyVerdict::kSaysNothing;
  int64_t compared = 0;           // sums or rows whose tolerance says something
  int64_t row = -1, column = -1;  // the worst of them; -1: none, or all together
  double left = 0;                // what is left of it where 0 is required
  double tolerance = 0;           // ... and what the contract's arithmetic may leave
  double usual = std::numeric_limits<double>::infinity();  // what it usually leaves at most
  // Where it does not hold: "the columns of grad_weight do not add up to 0: ..."
  std::string what = {};
};

// True for what is wrong or suspect.
bool IsBroken(const ConsistencyCheck& check);

// The outputs that a check compares, the blamed one among them.
std::span<const oracle::Output> ComparedOutputs(std::string_view check);

struct ConsistencyOptions {
  // The divisor of `mean`, where the problem is a part of a larger one.
  std::optional<int64_t> counted_rows = {};
  // The second, statistical tolerance as well, and the grids of 16 bits. For data in which errors are
  // independent, as those of a real run: a fuzzer's are not.
  bool statistical = false;
  // The dtype in which a kernel stored each output, where results were widened.
  std::array<std::optional<kernel::DType>, oracle::kOutputs.size()> stored = {};
  // What the rows are called in sentences, where the problem is a part of a larger one.
  std::span<const int64_t> row_names = {};
};

struct ConsistencyReport {
  std::vector<ConsistencyCheck> checks;
  std::vector<std::string> left_out;  // "column-sums: row 3 holds no finite logits"
};

// The most by chance: the statistical tolerance of a check is exceeded by errors that meet its premise
// with at most this probability.
inline constexpr double kFalseAlarm = 1e-9;

// `results` must be in host memory; a logprob may stand beside a loss, from the same call. Both
// gradients' sums over rows are taken for sums over all rows of the problem.
ConsistencyReport CheckConsistency(const kernel::Problem& problem, const kernel::Results& results,
                                   const oracle::Contract& contract,
                                   const ConsistencyOptions& options = {});

}  // namespace plumbline::fuzz

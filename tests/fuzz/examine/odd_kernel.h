// SPDX-License-Identifier: Apache-2.0
//
// Honest kernels of odd arithmetic. The seed draws the order and the split of every sum, from the
// extents if it says so; tiles of the vocabulary; what rounds operands, and how; the exponential, which
// may be another one in the last columns and may not go below 2^-126; how 1/T is formed; and the forms
// of logprob, entropy and p. Each is one that a description can declare, and description() declares it.

#pragma once

#include <cstdint>

#include "fuzz/examine/relation.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz::testing {

class OddKernel {
 public:
  explicit OddKernel(uint64_t seed);

  const Description& description() const { return description_; }
  // Requires labels that are columns or ignored, and valid temperatures.
  Ran Run(const OwnedProblem& problem) const;

 private:
  class Call;
  enum class Order : uint8_t { kForward, kBackward, kSplit, kTruncated };
  enum class Operands : uint8_t { kExact, kTf32, kScaled };
  enum class Inverse : uint8_t { kExact, kOff, kByLogarithm };

  Order order_;
  Operands operands_;
  Inverse inverse_;
  bool by_extents_;  // orders and tiles depend on N and V
  bool tail_;        // the last columns have another exponential, and divide by T
  bool least_;       // the exponential is never below 2^-126
  bool lazy_;        // the maximum moves by more than 8, or not at all
  bool merges_lse_;  // splits are merged by the logarithms of their sums
  bool base_two_;    // the exponential is another where T is not 1
  bool of_probabilities_, plain_logprob_, plain_entropy_, ratio_;
  int64_t tile_, splits_;
  Description description_;
};

}  // namespace plumbline::fuzz::testing

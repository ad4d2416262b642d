// SPDX-License-Identifier: Apache-2.0
//
// The arbiter's word on a failing case: reference and arbiter must agree within the reference's radius,
// and an element that fails by the one must fail by the other. What they disagree about is a fault of
// the harness.

#ifndef PLUMBLINE_FUZZ_SECOND_OPINION_H_
#define PLUMBLINE_FUZZ_SECOND_OPINION_H_

#include <cstdint>
#include <string>

#include "kernel/problem.h"
#include "oracle/arbiter.h"
#include "oracle/expectation.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

class SecondOpinion {
 public:
  // Both must outlive this. `cost` is what may be spent in all, in the units of Arbiter::Cost; what
  // would cost more than is left is not asked.
  SecondOpinion(const kernel::Problem& problem, const oracle::Expectation& expectation, double cost);

  // Empty, or what reference and arbiter disagree about. `got` (may be null) is the value that failed
  // by the reference. Sets *digits (may be null) if the arbiter spoke.
  std::string Ask(oracle::Output output, int64_t row, int64_t column, const double* got,
                  std::string* digits);

  // The same for `count` elements picked by `seed` among all outputs.
  std::string AskRandom(uint64_t seed, int count);

 private:
  oracle::Arbiter arbiter_;
  const oracle::Expectation& expectation_;
  double left_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_SECOND_OPINION_H_

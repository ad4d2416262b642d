// SPDX-License-Identifier: Apache-2.0
//
// The arbiter's word on elements of a case: reference and arbiter must agree within the reference's
// radius, and an element that fails by the one must fail by the other. What they disagree about is a
// fault of the harness. Which elements are asked about is a function of the case's seed and shape.

#ifndef PLUMBLINE_FUZZ_EXAMINE_SECOND_OPINION_H_
#define PLUMBLINE_FUZZ_EXAMINE_SECOND_OPINION_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/arbiter.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {

// `count` elements picked by `seed` among all outputs that are present.
std::vector<oracle::Watched> RandomElements(const kernel::Results& results, uint64_t seed, int count);

// For a case that passes: every output of one row, or, for one seed in four, also what all rows enter
// (loss, grad_weight) and a second row. Rows are what the arbiter's time goes into, so an element more
// of the same row is nearly free.
std::vector<oracle::Watched> SpreadElements(const kernel::Problem& problem,
                                            const kernel::Results& results, uint64_t seed);
// About what they cost, in the units of Arbiter::Cost, known from the shape alone.
double SpreadCost(uint64_t seed, int64_t rows, int64_t vocab, int64_t hidden_size);

class SecondOpinion {
 public:
  // The problem must outlive this. `cost` is what may be spent in all, in the units of Arbiter::Cost;
  // what would cost more than is left is not asked.
  SecondOpinion(const kernel::Problem& problem, double cost);

  // Empty, or what reference and arbiter disagree about. `failed`: the element fails by the reference.
  // Sets *digits (may be null) if the arbiter spoke.
  std::string Ask(const oracle::Watched& element, bool failed, std::string* digits);
  // One after another, none of them failed, up to the first disagreement.
  std::string AskAll(std::span<const oracle::Watched> elements);

  int64_t asked() const { return asked_; }  // elements that the arbiter spoke about

 private:
  oracle::Arbiter arbiter_;
  double left_;
  int64_t asked_ = 0;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXAMINE_SECOND_OPINION_H_

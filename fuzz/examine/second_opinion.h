// SPDX-License-Identifier: Apache-2.0
//
// Asks the arbiter about elements of a case. Reference and arbiter must agree within the reference's
// radius, and an element that fails by one must fail by the other. A disagreement is a fault of the
// harness. The elements asked about are a function of the case's seed and shape.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/arbiter.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// Picks `count` elements by `seed` among all outputs that are present.
std::vector<oracle::Watched> RandomElements(const kernel::Results& results, uint64_t seed, int count);

// The elements asked about in a case that passes: every output of one row. For one seed in four also
// the sums over all rows (loss, grad_weight) and a second row. The arbiter's time is spent per row, so
// one more element of the same row is nearly free.
std::vector<oracle::Watched> SpreadElements(const kernel::Problem& problem,
                                            const kernel::Results& results, uint64_t seed);
// An estimate of their cost, in the units of Arbiter::Cost, from the shape alone.
double SpreadCost(uint64_t seed, int64_t rows, int64_t vocab, int64_t hidden_size);

// True if the reference's requirement of an element and the arbiter's value are the same, within the
// reference's radius.
bool Agrees(const oracle::Element& expected, const oracle::ArbiterValue& value);
// True if `got`, which fails by the reference, fails by the arbiter's value as well.
bool FailsByArbiter(oracle::Output output, const oracle::Element& expected, double got,
                    const oracle::ArbiterValue& value, const oracle::Promises& promises);

// The arbiter's speed, in units of oracle::Arbiter::Cost a second.
inline constexpr double kArbiterCostASecond = 5e6;
// Why an element of that cost was not asked about: "it would take about 12 s".
std::string TooDear(double cost);

class SecondOpinion {
 public:
  // The problem must outlive this object. `cost` is the budget in all, in the units of Arbiter::Cost;
  // an element that would exceed it is not asked about. `promises` are the target's, `steps` are what
  // its contract rounds.
  SecondOpinion(const kernel::Problem& problem, double cost,
                const oracle::Promises& promises = oracle::kToTheLetter,
                const oracle::RoundedSteps& steps = {});

  // Returns an empty text, or the disagreement of reference and arbiter. `failed`: the element fails by
  // the reference. *digits (may be null) is set if the arbiter was asked, else *silent (may be null),
  // to the reason.
  std::string Ask(const oracle::Watched& element, bool failed, std::string* digits,
                  std::string* silent = nullptr);
  // Asks about one element after another, none of which failed, up to the first disagreement.
  std::string AskAll(std::span<const oracle::Watched> elements);

  int64_t asked() const { return asked_; }  // elements that the arbiter computed

 private:
  oracle::Arbiter arbiter_;
  double left_;
  oracle::Promises promises_;
  int64_t asked_ = 0;
};

}  // namespace plumbline::fuzz

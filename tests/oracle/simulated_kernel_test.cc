// SPDX-License-Identifier: Apache-2.0
//
// The bounds against kernels that err as much as their contracts let them
// (tests/oracle/simulated_kernel.h). No kernel may exceed its bounds, whatever its contract, and for
// every output some kernel must come close.

#include "tests/oracle/simulated_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/drawn_kernel.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;

using DrawOne = Contract(Dice* dice, const Ranges& ranges);

Tightest Attack(uint64_t first, uint64_t last, const Ranges& ranges, DrawOne* draw = DrawContract) {
  Tightest tightest;
  for (uint64_t seed = first; seed < last && !::testing::Test::HasFatalFailure(); ++seed) {
    Dice dice(seed);
    SmallProblem p = DrawProblem(&dice, ranges);
    const Contract contract = draw(&dice, ranges);
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, p.dtype), contract);
    const std::string what = "seed " + std::to_string(seed) + " N " + std::to_string(p.n) + " V " +
                             std::to_string(p.v) + " H " + std::to_string(p.h) + " " +
                             std::string(kernel::Name(p.dtype)) + " reduction " +
                             std::to_string(static_cast<int>(p.reduction)) + " T " +
                             std::to_string(p.temperature.empty() ? 1.0f : p.temperature[0]);
    for (uint64_t turn = 0; turn < 3; ++turn) {
      JudgeOne(problem, contract, expected, 3 * seed + turn, what, &tightest);
    }
  }
  return tightest;
}

// Fails for a bound that forgets an error. Some kernel here commits each of them in full: propagated
// logit errors (any kernel with a chain of additions), the rounding of d_logits (a 16-bit d_logits),
// the output's rounding (16-bit gradients), and so on.
TEST(SimulatedKernel, StaysWithinItsBounds) {
  const Tightest t = Attack(0, 12000, {});
  EXPECT_LT(t.vacuous, t.judged / 1000);
}

// The same with numbers that underflow, operands that are flushed and d_logits that overflow. Fails for
// a bound without its underflow terms, or without the products that flushed operands lose.
TEST(SimulatedKernel, StaysWithinItsBoundsAtTheEndsOfTheRange) {
  const Tightest t = Attack(0, 4000, {60, 99, true});
  EXPECT_LT(t.vacuous, t.judged / 4);
}

// The same for contracts from the whole range that a description may declare. Fails for a bound without
// the products of large errors, or that forgets a declared error at any place where a kernel commits
// it. Seed 138101 fails for one that forgets that exp(x - lse) of kept exponents scales the maximum of
// a tile in the place of the logit.
TEST(SimulatedKernel, StaysWithinItsBoundsWhateverIsDeclared) {
  const Tightest t = Attack(0, 12000, {}, DrawWholeContract);
  Attack(138101, 138102, {}, DrawWholeContract);
  EXPECT_LT(t.vacuous, t.judged / 4);
  Attack(0, 4000, {60, 99, true}, DrawWholeContract);
}

// The same with steps that are stored in 16 bits. Fails for a bound that forgets a logit on the other
// side of a tie, or the rounding of a log-probability, a probability, a partial sum or an output. Seed
// 69885 fails for one that charges the underflow of partial sums once and not in each chunk, 65989 for
// one that does not in each stretch.
TEST(SimulatedKernel, StaysWithinItsBoundsInSixteenBits) {
  const Tightest t = Attack(0, 12000, {}, DrawNarrowContract);
  EXPECT_LT(t.vacuous, t.judged / 4);
  for (const uint64_t seed : {69885, 65989}) Attack(seed, seed + 1, {}, DrawNarrowContract);
  Attack(0, 4000, {60, 99, true}, DrawNarrowContract);
}

// The same as the tests above, with more seeds.
TEST(SlowSimulatedKernel, StaysWithinItsBounds) {
  Attack(12000, 44000, {}, DrawNarrowContract);
  Attack(4000, 20000, {60, 99, true}, DrawNarrowContract);
  Attack(12000, 44000, {}, DrawWholeContract);
  Attack(4000, 20000, {60, 99, true}, DrawWholeContract);
  Attack(12000, 44000, {});
  Attack(4000, 20000, {60, 99, true});
}

// k p is subnormal and ln p + H is not small, so the error of k p is multiplied by ln p + H. Fails for
// a bound that includes the underflow of results alone.
TEST(SimulatedKernel, UnderflowsBeforeTheEnd) {
  Tightest tightest;
  for (const int k : {-20, -33, -40}) {
    SmallProblem p;
    p.n = p.h = 1;
    p.v = 2;
    p.hidden = BitsOf({1});
    p.weight = BitsOf({0, -74});
    p.labels = {0};
    p.grad_entropy = {std::ldexp(1.5f, k)};
    Contract contract = CarefulContract();
    for (const Flush flush : {Flush::kNone, Flush::kResults}) {
      contract.flush = flush;
      const kernel::Problem problem = p.View();
      const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
      for (uint64_t seed = 0; seed < 50; ++seed) {
        JudgeOne(problem, contract, expected, seed, "k 2^" + std::to_string(k), &tightest);
      }
    }
  }
  EXPECT_GT(tightest.of[static_cast<size_t>(Output::kGradWeight)], 0.2);
}

// dz = g meets a weight of 2^100, and the entropy, whose gradient nobody asked for, is unbounded. Fails
// if the range of d_logits becomes 0 times infinity there, so that the element is called finite.
TEST(SimulatedKernel, AGradientThatOverflowsIsUnspecified) {
  SmallProblem p;
  p.n = p.h = 1;
  p.v = 2;
  p.hidden = BitsOf({1});
  p.weight = BitsOf({0x1p100f, -0x1p100f});
  p.labels = {1};
  p.grad_logprob = {0x1p60f};
  Contract contract = CarefulContract();
  contract.plain_entropy = true;
  contract.scale = Scale::kBefore;
  const kernel::Problem problem = p.View();
  const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
  EXPECT_EQ(expected[Output::kEntropy].at(0, 0).expect, Expect::kVacuous);
  EXPECT_EQ(expected[Output::kGradHidden].at(0, 0).expect, Expect::kUnspecified);
}

// Logits may be off by 16 either way, in forward and again in backward, so e^(x - lse) may be e^64. g =
// 2^60 takes that beyond fp32, g = 1 does not. Fails if a computed p counts as at most 1.
TEST(SimulatedKernel, AProbabilityMayBeFarAboveOne) {
  for (const float g : {0x1p60f, 1.0f}) {
    SmallProblem p;
    p.n = p.h = 1;
    p.v = 2;
    p.hidden = BitsOf({1});
    p.weight = BitsOf({0x1p28f, 0x1p28f});
    p.labels = {1};
    p.grad_logprob = {g};
    Contract contract = CarefulContract();
    contract.scale = Scale::kBefore;
    contract.recompute_same_bits = false;
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
    EXPECT_EQ(expected[Output::kGradWeight].at(0, 0).expect,
              g == 1 ? Expect::kVacuous : Expect::kUnspecified);
  }
}

// Measures how close one arithmetic comes to its bounds. A bound that doubles a term, or that is
// infinite, is sound but proves less; only this finds it.
Tightest Reach(Contract contract, DType dtype, const std::vector<float>& weights, int64_t second_label,
               float g, float k) {
  Tightest tightest;
  SmallProblem p;
  p.h = 4;
  p.n = 2;
  p.v = static_cast<int64_t>(weights.size()) / p.h;
  p.dtype = dtype;
  for (const float x : {1.0f, 0.75f, 1.25f, 0.5f, 1.5f, 1.0f, 0.25f, 1.0f}) {
    p.hidden.push_back(Pattern(dtype, x));
  }
  for (const float x : weights) p.weight.push_back(Pattern(dtype, x));
  for (const Reduction reduction : {Reduction::kNone, Reduction::kMean}) {
    p.reduction = reduction;
    p.labels = {0, second_label};
    p.grad_logprob.assign(reduction == Reduction::kNone ? 2 : 1, g);
    p.grad_entropy.assign(2, k);
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, DType::kF32), contract);
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      JudgeOne(problem, contract, expected, seed, "a witness", &tightest);
    }
  }
  return tightest;
}

// Logits are sums of positive terms, so that every rounding of a chain counts in full.
std::vector<float> PositiveWeights(int64_t v) {
  Dice dice(static_cast<uint64_t>(v));
  std::vector<float> out;
  for (int64_t e = 0; e < 4 * v; ++e) out.push_back(8 + dice.Unit());
  return out;
}

// Each column's weights have the sign of its d_logit, so that the terms of grad_hidden add up.
std::vector<float> AlignedWeights(int64_t v) {
  Dice dice(static_cast<uint64_t>(v));
  std::vector<float> out;
  for (int64_t e = 0; e < 4 * v; ++e) out.push_back((e < 4 ? 0.25f : -0.25f) + dice.Unit() / 64);
  return out;
}

// Fails if a bound is so wide that no kernel comes near it, in any of the outputs listed.
TEST(SimulatedKernel, ReachesItsBounds) {
  const Contract c = CarefulContract();
  const auto of = [](const Tightest& t, Output output) { return t.of[static_cast<size_t>(output)]; };
  const Tightest positive = Reach(c, DType::kF32, PositiveWeights(6), 5, 1, 0);
  EXPECT_GT(of(positive, Output::kLogprob), 0.6);
  EXPECT_GT(of(positive, Output::kLoss), 0.6);
  EXPECT_GT(of(positive, Output::kLse), 0.5);
  EXPECT_GT(of(positive, Output::kEntropy), 0.5);
  EXPECT_GT(of(positive, Output::kGradWeight), 0.4);
  const Tightest aligned = Reach(c, DType::kF32, AlignedWeights(6), 0, 1, 0);
  EXPECT_GT(of(aligned, Output::kGradHidden), 0.3);
  EXPECT_GT(of(aligned, Output::kGradWeight), 0.5);
  const Tightest entropy = Reach(c, DType::kF32, AlignedWeights(6), 0, 0, 1);
  EXPECT_GT(of(entropy, Output::kGradHidden), 0.15);
  EXPECT_GT(of(entropy, Output::kGradWeight), 0.15);
}

}  // namespace
}  // namespace plumbline::oracle

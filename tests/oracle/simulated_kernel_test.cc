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
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;

class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  int64_t Range(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(rng_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Range(1, n) == 1; }
  float Unit() { return static_cast<float>(Range(-0x7fffff, 0x7fffff)) * 0x1p-23f; }  // (-1, 1)
  float Power(int64_t low, int64_t high) {
    return std::ldexp(1.0f, static_cast<int>(Range(low, high)));
  }
  template <class T, size_t kSize>
  T Of(const std::array<T, kSize>& values) {
    return values[static_cast<size_t>(Range(0, kSize - 1))];
  }

 private:
  std::mt19937_64 rng_;
};

// Truncates x to the dtype and to its range.
uint32_t Pattern(DType dtype, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (dtype == DType::kF32) return bits;
  if (dtype == DType::kBf16) return bits >> 16;
  const uint32_t sign = (bits >> 16) & 0x8000;
  const float size = std::fabs(x);
  if (size >= 65504) return sign | 0x7bff;
  if (size < 0x1p-14f) return sign | static_cast<uint32_t>(size * 0x1p24f);
  return sign | (((bits & 0x7fffffff) >> 13) - (112u << 10));
}

struct Ranges {
  int64_t gradient = 0;     // upstream gradients from 2^-this to 2^this
  int64_t temperature = 3;  // likewise
  bool wild = false;        // subnormal, huge and flushed operands
};

SmallProblem DrawProblem(Dice* dice, const Ranges& ranges) {
  SmallProblem p;
  p.n = dice->Range(1, 3);
  p.v = dice->OneIn(3) ? dice->Range(1, 40) : dice->Range(1, 6);
  p.h = dice->Range(1, 6);
  p.dtype = dice->Of(std::array{DType::kBf16, DType::kF16, DType::kF32});
  const bool half = p.dtype == DType::kF16;
  const float scale = dice->Power(-1, 5), offset = half ? 256 : 4096;
  const int64_t family = dice->Range(0, ranges.wild ? 5 : 4);
  for (int64_t e = 0; e < p.n * p.h; ++e) {
    float x = dice->Unit();
    if (family == 0 || family == 4) x = 1;
    if (family == 5) x = dice->OneIn(2) ? x * 0x1p-126f : 1;
    p.hidden.push_back(Pattern(p.dtype, x));
  }
  for (int64_t e = 0; e < p.v * p.h; ++e) {
    float x = dice->Unit() * scale;
    if (family == 1) x = std::fabs(x);
    if (family == 2) x = static_cast<float>(dice->Range(-4, 4));           // exact
    if (family == 3 && e % p.h == 0 && dice->OneIn(3)) x += 20;            // confident
    if (family == 4) x = offset + static_cast<float>(dice->Range(-8, 8));  // offset
    if (family == 5 && dice->OneIn(2)) x = std::ldexp(x, half ? 4 : ranges.wild ? 100 : 0);
    p.weight.push_back(Pattern(p.dtype, x));
  }
  p.reduction = static_cast<Reduction>(dice->OneIn(2) ? 0 : dice->Range(1, 2));
  for (int64_t i = 0; i < p.n; ++i) p.labels.push_back(dice->OneIn(8) ? -100 : dice->Range(0, p.v - 1));
  if (dice->OneIn(2)) {
    p.temperature = {(1.5f + dice->Unit() / 2) * dice->Power(-ranges.temperature, ranges.temperature)};
  }
  const auto upstream = [&] { return dice->Unit() * dice->Power(-ranges.gradient, ranges.gradient); };
  for (int64_t i = 0; i < (p.reduction == Reduction::kNone ? p.n : 1); ++i) {
    p.grad_logprob.push_back(dice->OneIn(4) ? 0 : upstream());
  }
  if (dice->OneIn(2)) {
    for (int64_t i = 0; i < p.n; ++i) p.grad_entropy.push_back(upstream());
  }
  return p;
}

Contract DrawContract(Dice* dice, const Ranges& ranges) {
  Contract c;
  c.accumulate = static_cast<Accumulate>(dice->Range(0, 3));
  c.block = dice->Of(std::array{4, 8, 16});
  c.extra_bits = static_cast<int>(dice->Range(0, 2));
  c.shift = Shift::kExactMax;
  c.scale = static_cast<Scale>(dice->Range(0, 1));
  c.scale_roundings = static_cast<double>(dice->Range(0, 3));
  c.argument_roundings = static_cast<double>(dice->Range(1, 2));
  if (ranges.wild) c.flush = static_cast<Flush>(dice->Range(0, 2));
  c.exp_error = static_cast<double>(dice->Range(1, 4));
  c.exp_gradual = dice->OneIn(2);
  c.log_error_absolute = dice->OneIn(2) ? 4 : 0;
  c.log_error_relative = dice->OneIn(2) ? 6 : 1.1;
  c.division_error = dice->OneIn(2) ? 4 : 1;
  if (dice->OneIn(2)) {
    c.tile = dice->Range(1, 8);
    c.tile_depth = static_cast<int64_t>(std::ceil(std::log2(static_cast<double>(c.tile))));
    c.splits = dice->Range(1, 3);
    if (dice->OneIn(2)) c.rescales = dice->Range(0, 1);
  }
  c.label_logit_separate = dice->OneIn(3);
  c.plain_logprob = dice->OneIn(4);
  c.plain_entropy = dice->OneIn(4);
  c.recompute_same_bits = dice->OneIn(2);
  c.probability = static_cast<Probability>(dice->Range(0, 1));
  if (dice->OneIn(2)) c.d_logits = dice->Of(std::array{DType::kF32, DType::kBf16, DType::kF16});
  return c;
}

std::string Show(const Contract& c) {
  std::ostringstream s;
  s << "accumulate " << static_cast<int>(c.accumulate) << " block " << c.block << "+" << c.extra_bits
    << " flush " << static_cast<int>(c.flush) << " scale " << static_cast<int>(c.scale) << " "
    << c.scale_roundings << " argument " << c.argument_roundings << " exp " << c.exp_error << " "
    << c.exp_gradual << " log " << c.log_error_absolute << " " << c.log_error_relative << " division "
    << c.division_error << " tile " << c.tile << " splits " << c.splits << " rescales "
    << c.rescales.value_or(-1) << " separate " << c.label_logit_separate << " plain " << c.plain_logprob
    << c.plain_entropy << " same bits " << c.recompute_same_bits << " probability "
    << static_cast<int>(c.probability) << " dz " << (c.d_logits ? kernel::Name(*c.d_logits) : "input");
  return s.str();
}

struct Tightest {
  std::array<double, kOutputs.size()> of{};
  int64_t judged = 0, vacuous = 0;
};

// Judges the results of one kernel. `what` names the kernel in messages.
void JudgeOne(const kernel::Problem& problem, const Contract& contract, const Expectation& expected,
              uint64_t seed, const std::string& what, Tightest* tightest) {
  const Simulated got = Simulate(problem, contract, seed);
  for (Output output : kOutputs) {
    const ExpectedTensor& t = expected[output];
    for (size_t e = 0; e < t.elements.size(); ++e) {
      const Element& element = t.elements[e];
      const JudgedElement judged =
          Judge(output, element, output == Output::kLoss ? got.loss : got.of(output)[e]);
      ++tightest->judged;
      tightest->vacuous += judged.verdict == Verdict::kVacuous;
      double& most = tightest->of[static_cast<size_t>(output)];
      most = std::max(most, judged.tightness);
      ASSERT_NE(judged.verdict, Verdict::kFail)
          << Name(output) << "[" << e << "] is off by " << judged.tightness << " times its bound "
          << element.bound << " around " << element.value << ": " << Name(judged.failure) << "; "
          << what << "; " << Show(contract);
    }
  }
}

Tightest Attack(uint64_t first, uint64_t last, const Ranges& ranges) {
  Tightest tightest;
  for (uint64_t seed = first; seed < last && !::testing::Test::HasFatalFailure(); ++seed) {
    Dice dice(seed);
    SmallProblem p = DrawProblem(&dice, ranges);
    const Contract contract = DrawContract(&dice, ranges);
    const kernel::Problem problem = p.View();
    const Expectation expected = Expected(problem, Everything(problem, p.dtype), contract);
    const std::string what = "seed " + std::to_string(seed) + " V " + std::to_string(p.v);
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

// The same as the two tests above, with more seeds.
TEST(SlowSimulatedKernel, StaysWithinItsBounds) {
  Attack(12000, 400000, {});
  Attack(4000, 200000, {60, 99, true});
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

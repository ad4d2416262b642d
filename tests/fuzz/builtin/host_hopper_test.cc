// SPDX-License-Identifier: Apache-2.0
//
// host-hopper is within the bounds of its contract, and its arithmetic needs these bounds: those of
// plain sums of magnitudes would be too small, and they are not many times the error that can occur.

#include "fuzz/builtin/host_hopper.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/target/catalogue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

const Target& HostHopper() {
  std::string error;
  static const auto* target = new std::unique_ptr<Target>(LoadTarget("host-hopper", &error));
  EXPECT_TRUE(*target) << error;
  return **target;
}

// The worst ratio of error to bound of an output.
double Tightness(const CaseResult& result, const std::string& output) {
  EXPECT_EQ(result.verdict, oracle::Verdict::kPass)
      << (result.findings.empty() ? result.harness_fault : result.findings.front().what);
  for (const OutputSummary& summary : result.outputs) {
    if (summary.output == output) return summary.tightness;
  }
  ADD_FAILURE() << "no " << output;
  return 0;
}

// A problem with V = 1, so that lse is the only logit over the temperature.
OwnedProblem OneLogit(kernel::DType dtype, const std::vector<float>& hidden,
                      const std::vector<float>& weight, float temperature) {
  const auto h = static_cast<int64_t>(hidden.size());
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(dtype, {1, h});
  p.weight = HostTensor::Zeros(dtype, {1, h});
  p.labels = HostTensor::Zeros(kernel::DType::kI64, {1});
  p.temperature = HostTensor::Zeros(kernel::DType::kF32, {1});
  p.temperature->SetFloat(0, temperature);
  for (int64_t k = 0; k < h; ++k) {
    p.hidden.SetFloat(k, hidden[static_cast<size_t>(k)]);
    p.weight.SetFloat(k, weight[static_cast<size_t>(k)]);
  }
  p.wanted.grad_hidden = p.wanted.grad_weight = false;
  return p;
}

// Fails if a bound is too small, or if the arithmetic is not the contract's.
TEST(HostHopper, IsWithinItsBoundsInEveryRegime) {
  for (uint64_t i = 0; i < 200; ++i) {
    const Recipe recipe = DrawRecipe(20261121, i);
    const CaseResult result = Examine(Expand(recipe), HostHopper(), {.arbiter = false});
    EXPECT_NE(result.verdict, oracle::Verdict::kFail)
        << result.findings.front().what << "\n  " << Format(recipe);
    EXPECT_EQ(result.harness_fault, "");
  }
}

// Fails without the last term of the planes' bound: d_logits near 2^-131 lose bits to the planes.
TEST(HostHopper, PlanesOfTinyNumbersAreWithinTheBound) {
  const char* const line =
      "v1 regime=upstream-gradients seed=e3647f9ec18ca96b dtype=fp32 n=4 v=257 h=48 values=lattice "
      "exp=3 labels=random label_dtype=int64 grads=random entropy_grads=one-hot reduction=mean "
      "temperature=1 temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=1";
  Recipe recipe;
  std::string error;
  ASSERT_TRUE(Parse(line, &recipe, &error)) << error;
  Tightness(Examine(Expand(recipe), HostHopper()), "grad_weight");
}

// A subnormal fp16 element has the exponent of 2^-14, so 2^10 * 2^-24 aligns the block as 2^-4 would.
// The other products, 15 of 1.5 * 2^-30, are then lost: 2^-25.5, whereas 10.5 * 2^-24 of sum |h w| =
// 2^-14 would be 2^-34.6.
TEST(HostHopper, SubnormalOperandsAlignAsTheirExponentSays) {
  std::vector<float> hidden(16, 0x1p-16f), weight(16, 0x1.8p-14f);
  hidden[0] = 0x1p10f;
  weight[0] = 0x1p-24f;
  const OwnedProblem problem = OneLogit(kernel::DType::kF16, hidden, weight, 0x1p-20f);
  const double plain = 10.5 * 0x1p-24;  // of 2^-14 / 2^-20 = 64
  OwnedProblem alone = problem;         // after the loop: the first product alone
  for (int64_t k = 1; k < 16; ++k) alone.hidden.SetFloat(k, 0);
  const CaseResult result = Examine(problem, HostHopper());
  EXPECT_GT(Tightness(result, "lse"), 0.1);
  EXPECT_GT(15 * 0x1.8p-30 / 0x1p-14, 100 * plain);
  EXPECT_EQ(Tightness(Examine(alone, HostHopper()), "lse"), 0);
}

// Fails if the bound were 1.2 times as large: the bound of a chain of blocks is nearly reached.
TEST(HostHopper, TheBoundOfSwallowedTermsIsNearlyReached) {
  std::vector<float> hidden(512, 0x1.fep-1f), weight(512, 0x1p-25f);
  hidden[0] = weight[0] = 1;
  for (size_t k = 15; k < 512; k += 16) weight[k] = 0x1p-23f;
  const OwnedProblem problem = OneLogit(kernel::DType::kBf16, hidden, weight, 1);
  EXPECT_GT(Tightness(Examine(problem, HostHopper()), "lse"), 0.85);
}

// Fails if infinity meets the planes of a finite number: 1 - 2^-12 has a negative plane, 2^-140 has no
// plane that is not 0, and both would make NaN of a logit of -inf.
TEST(HostHopper, AnInfiniteWeightIsNotSplit) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float h : {1 - 0x1p-12f, 0x1p-140f}) {
    OwnedProblem p;
    p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 2});
    p.weight = HostTensor::Zeros(kernel::DType::kF32, {3, 2});
    p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
    for (int64_t i = 0; i < 2; ++i) {
      p.hidden.SetFloat(2 * i, h);
      p.hidden.SetFloat(2 * i + 1, 0.7f);
    }
    p.weight.SetFloat(1, 1);
    p.weight.SetFloat(4, -kInfinity);
    p.wanted.grad_hidden = p.wanted.grad_weight = false;
    const CaseResult result = Examine(p, HostHopper());
    EXPECT_LT(Tightness(result, "logprob"), 1);
    for (const OutputSummary& summary : result.outputs) {
      EXPECT_EQ(summary.pass, 2) << summary.output;
      EXPECT_EQ(summary.unspecified, 0) << summary.output;
    }
  }
}

// Fails if a mutant is found on host's arithmetic but not on this one.
TEST(HostHopper, ItsMutantsFail) {
  for (const auto& [name, regime] : {std::pair("tail-unmasked", "ragged-tail"),
                                     {"plain-logprob", "common-offset"},
                                     {"entropy-not-rebased", "common-offset"}}) {
    std::string error;
    const auto mutant = LoadTarget("hopper-mutant:" + std::string(name), &error);
    ASSERT_TRUE(mutant) << error;
    bool failed = false;
    for (uint64_t i = 0; i < 60 && !failed; ++i) {
      const OwnedProblem problem = Expand(DrawRecipe(5, i, regime));
      failed = Examine(problem, *mutant, {.arbiter = false}).verdict == oracle::Verdict::kFail;
    }
    EXPECT_TRUE(failed) << name;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Elements at the ends of what STORED-STEPS.md says, which drawn problems seldom have: a label whose
// logit is -inf, and results that their dtype does not hold.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/drawn_kernel.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

StepDType& OutputOf(Contract* contract, Output output) {
  return contract->outputs[static_cast<size_t>(output)];
}

// V = 2, H = 1, label 0, one row for each element of hidden.
SmallProblem TwoColumns(DType dtype, const std::vector<float>& hidden, float first, float second) {
  SmallProblem p;
  p.n = static_cast<int64_t>(hidden.size());
  p.v = 2;
  p.h = 1;
  p.dtype = dtype;
  for (const float x : hidden) p.hidden.push_back(Pattern(dtype, x));
  p.weight = {Pattern(dtype, first), Pattern(dtype, second)};
  p.labels.assign(hidden.size(), 0);
  return p;
}

Element First(SmallProblem* p, const Contract& contract, Output output, DType gradients) {
  const kernel::Problem problem = p->View();
  return Expected(problem, Everything(problem, gradients), contract)[output].at(0, 0);
}

// Autograd in bf16 keeps g / 3 as 0.333984375, and 7 times that is 2.337890625, which bf16 rounds to
// 2.34375. Fails if the rounding of G is forgotten at a label whose logit is -inf.
TEST(StoredSteps, TheGradientOfALogProbabilityIsRoundedAtALabelOfMinusInfinity) {
  SmallProblem p = TwoColumns(DType::kBf16, {1, 2, 4}, -std::numeric_limits<float>::infinity(), 0);
  p.reduction = kernel::Reduction::kMean;
  p.grad_logprob = {1};
  Contract contract = CarefulContract();
  contract.plain_logprob = contract.log_softmax_backward = true;
  contract.probability = Probability::kExpOfLse;
  contract.log_probs = contract.probabilities = DType::kBf16;
  OutputOf(&contract, Output::kGradWeight) = DType::kBf16;
  const Element e = First(&p, contract, Output::kGradWeight, DType::kBf16);
  EXPECT_EQ(e.expect, Expect::kFinite);
  EXPECT_NEAR(e.value, -7.0 / 3, 1e-6);
  EXPECT_LE(std::fabs(-2.34375 - e.value), e.bound);
  EXPECT_LT(e.bound, 5.1 * 0x1p-8 * 7 / 3) << "gamma_4, and the output's rounding";
}

// The same where G is kept in fp16, which does not hold g = 2^17. Fails if only G of the entropy may
// overflow.
TEST(StoredSteps, TheGradientOfALogProbabilityMayOverflow) {
  for (const float g : {0x1p17f, 0x1p10f}) {
    SmallProblem p = TwoColumns(DType::kF16, {0x1p-4f}, 0, 0);
    p.grad_logprob = {g};
    Contract contract = CarefulContract();
    contract.log_softmax_backward = true;
    contract.probability = Probability::kExpOfLse;
    contract.probabilities = DType::kF16;
    EXPECT_EQ(First(&p, contract, Output::kGradWeight, DType::kF32).expect,
              g == 0x1p17f ? Expect::kUnspecified : Expect::kFinite);
  }
}

// bf16 rounds 65408 to 65536, which fp16 does not hold. Fails if fp16's largest number is compared with
// what it was before that.
TEST(StoredSteps, TheFirstOfTwoRoundingsMayLeaveTheRangeOfTheSecond) {
  for (const float g : {65408.0f, 65152.0f}) {
    SmallProblem p = TwoColumns(DType::kF16, {1}, -200, 200);
    p.grad_logprob = {g};
    Contract contract = CarefulContract();
    OutputOf(&contract, Output::kGradWeight) = DType::kBf16;
    const Element e = First(&p, contract, Output::kGradWeight, DType::kF16);
    EXPECT_NEAR(e.value, static_cast<double>(g), 1);
    EXPECT_EQ(e.expect, g == 65408 ? Expect::kUnspecified : Expect::kFinite);
  }
}

// Logits of 2^32 may be off by 256, so that nothing is known of s, and the bound of lse is infinite.
// fp16 does not hold lse, bf16 does. Fails if a result that fp16 does not hold has to be finite.
TEST(StoredSteps, ALargeResultInFp16MayBeInfiniteWhateverItsBoundSays) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    SmallProblem p = TwoColumns(DType::kF32, {0x1p16f}, 0x1p16f, 0x1p16f);
    Contract contract = CarefulContract();
    contract.scale = Scale::kBefore;
    contract.label_logit_separate = true;
    contract.recompute_same_bits = false;
    contract.accumulate = Accumulate::kUnknown;
    OutputOf(&contract, Output::kLse) = dtype;
    EXPECT_EQ(First(&p, contract, Output::kLse, DType::kF32).expect,
              dtype == DType::kF16 ? Expect::kUnspecified : Expect::kVacuous);
  }
}

}  // namespace
}  // namespace plumbline::oracle

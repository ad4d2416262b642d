// SPDX-License-Identifier: Apache-2.0
//
// What is required of gradients where the label's logit is -inf, so that dz = g / T
// (kernel/OPERATION.md, decision 5).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "oracle/arbiter.h"
#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

constexpr float kInf = std::numeric_limits<float>::infinity();

// A row of two hidden dimensions whose label, column 1, has a logit of -inf.
SmallProblem Row(float g, float k, float temperature) {
  SmallProblem p;
  p.n = 1, p.v = 3, p.h = 2;
  p.hidden = BitsOf({0.75f, -0.5f});
  p.weight = BitsOf({1, 2, -kInf, 3, 0.5f, -1});
  p.labels = {1};
  p.temperature = {temperature};
  p.grad_logprob = {g};
  p.grad_entropy = {k};
  return p;
}

Element At(SmallProblem* p, const Contract& contract, Output output, int64_t row, int64_t column) {
  const kernel::Problem problem = p->View();
  return Expected(problem, Everything(problem, p->dtype), contract)[output].at(row, column);
}

// Fails if dz of the label is 0, if k moves it, or if its bound is of another size than its roundings:
// those of 1 / T and of two products are within it, and 16 ulps are not.
TEST(InfiniteLabel, MovesByTheDefinition) {
  for (const float g : {0.7f, -3.1f}) {
    for (const float k : {0.0f, 2.0f}) {
      for (const float temperature : {1.0f, 0.7f, 3.0f}) {
        SmallProblem p = Row(g, k, temperature);
        const Element e = At(&p, CarefulContract(), Output::kGradWeight, 1, 0);
        const double exact = 0.75 * static_cast<double>(g) / static_cast<double>(temperature);
        EXPECT_EQ(e.expect, Expect::kFinite);
        EXPECT_NEAR(e.value, exact, 0x1p-50 * std::fabs(exact));
        const float inverse = 1 / temperature, dz = g * inverse;
        EXPECT_LE(std::fabs(static_cast<double>(dz * 0.75f) - exact), e.bound);
        EXPECT_LT(e.bound, 16 * 0x1p-24 * std::fabs(exact));
        EXPECT_NEAR(Arbiter(p.View()).Evaluate(Output::kGradWeight, 1, 0).high, e.value,
                    0x1p-50 * std::fabs(exact));
      }
    }
  }
}

// dz is multiplied by an infinite weight. Fails if the product's sign is lost, if 0 * inf is not NaN,
// or if the finite elements of the row are no longer required.
TEST(InfiniteLabel, MeetsInfiniteWeights) {
  for (const float g : {2.0f, -2.0f}) {
    SmallProblem p = Row(g, 1, 1);
    EXPECT_EQ(At(&p, CarefulContract(), Output::kGradHidden, 0, 0).expect,
              g > 0 ? Expect::kMinusInf : Expect::kPlusInf);
    EXPECT_EQ(At(&p, CarefulContract(), Output::kGradHidden, 0, 1).expect, Expect::kFinite);
    p.weight[4] = BitsOf({-kInf})[0];  // column 2, whose dz is 0
    EXPECT_EQ(At(&p, CarefulContract(), Output::kGradHidden, 0, 0).expect, Expect::kNaN);
  }
  SmallProblem none = Row(0, 1, 1);
  EXPECT_EQ(At(&none, CarefulContract(), Output::kGradHidden, 0, 0).expect, Expect::kNaN);
  EXPECT_EQ(At(&none, CarefulContract(), Output::kGradWeight, 1, 0).value, 0);
}

// Nothing is required of the product where an honest kernel may make NaN of it: where dz may underflow
// to 0, and where the other columns' terms may overflow to the other sign. Fails if it is required.
TEST(InfiniteLabel, IsUnspecifiedWhereItsProductMayBeNaN) {
  Contract flushing = CarefulContract();
  flushing.flush = Flush::kResults;
  SmallProblem tiny = Row(0x1p-126f, 0, 1);
  EXPECT_EQ(At(&tiny, flushing, Output::kGradHidden, 0, 0).expect, Expect::kUnspecified);
  EXPECT_EQ(At(&tiny, CarefulContract(), Output::kGradHidden, 0, 0).expect, Expect::kMinusInf);

  Contract narrow = CarefulContract();
  narrow.d_logits = DType::kF16;
  for (const auto& [g, expect] : {std::pair{0x1p-26f, Expect::kUnspecified},  // rounds to 0
                                  std::pair{0x1p-23f, Expect::kMinusInf},
                                  std::pair{0x1p17f, Expect::kUnspecified}}) {  // rounds to infinity
    SmallProblem p = Row(g, 0, 1);
    EXPECT_EQ(At(&p, narrow, Output::kGradHidden, 0, 0).expect, expect) << g;
  }

  SmallProblem large = Row(8, 0, 1);
  large.hidden = BitsOf({0x1p-10f, 0});
  large.weight = BitsOf({0x1.8p127f, 2, -kInf, 3, 0x1.8p127f, -1});
  EXPECT_EQ(At(&large, CarefulContract(), Output::kGradHidden, 0, 0).expect, Expect::kUnspecified);
}

}  // namespace
}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0
//
// Backward's exponents as a device keeps them in fp16, on the host with the arithmetic of tensor cores.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/host/operator.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

struct OnTensorCores : host::NoHooks {
  using Dots = host::TensorCores;
};

// Returns d_logits of one row with these logits, whose label is the first: with hidden of ones
// grad_weight has them in each column. The logits are sums of two numbers that bf16 has.
template <class Hooks>
std::vector<float> DLogits(DType dtype, const std::vector<std::pair<float, float>>& logits) {
  const auto v = static_cast<int64_t>(logits.size());
  TestValues values = TestValues::Random(dtype, 1, v, 2, 1);
  values.hidden = {1, 1};
  values.weight.clear();
  for (const auto& [a, b] : logits) values.weight.insert(values.weight.end(), {a, b});
  values.labels = {0};
  values.g = {1};
  values.k.clear();
  values.fp32_grads = true;
  PlacedProblem placed(values);
  EXPECT_TRUE(host::RunImpl(placed.problem(), placed.results(), 1, Hooks()).ok());
  const TestOutputs outputs = placed.Outputs();
  std::vector<float> d;
  for (int64_t i = 0; i < v; ++i)
    d.push_back(TestOutputs::Float(outputs.grad_weight[static_cast<size_t>(i * 2)]));
  return d;
}

// 60 + 127/128 of half a step of fp16 there. Fails if the exponent of a column is not rounded to fp16,
// is where the dtype is another, or if the label's is.
TEST(KeptExponents, OfBf16GoThroughFp16) {
  const std::vector<std::pair<float, float>> logits = {{0, 0}, {-60, -0x1.fcp-7f}};
  const float rounded = std::exp(-60.0F), as_it_is = std::exp(-60.0F - 0x1.fcp-7F);
  EXPECT_NEAR(DLogits<OnTensorCores>(DType::kBf16, logits)[1] / -rounded, 1, 0x1p-8);
  EXPECT_NEAR(DLogits<host::NoHooks>(DType::kBf16, logits)[1] / -as_it_is, 1, 0x1p-16);
  EXPECT_NEAR(DLogits<OnTensorCores>(DType::kF32, logits)[1] / -as_it_is, 1, 0x1p-16);
  const std::vector<std::pair<float, float>> of_label = {{-60, -0x1.fcp-7f}, {0, 0}};
  EXPECT_EQ(DLogits<OnTensorCores>(DType::kBf16, of_label)[0], 1);
}

// The second tile lies 60 + the same below the first, its columns 0 and 1 apart. Fails if distances are
// taken from the row's maximum, which rounds that of the tile, or if a tile's own maximum is rounded.
TEST(KeptExponents, AreDistancesFromTheTile) {
  std::vector<std::pair<float, float>> logits(66, {-200.0F, 0.0F});
  logits[0] = {0, 0};
  logits[64] = {-60, -0x1.fcp-7f};
  logits[65] = {-61, -0x1.fcp-7f};
  const std::vector<float> d = DLogits<OnTensorCores>(DType::kBf16, logits);
  EXPECT_NEAR(d[64] / -std::exp(-60.0F - 0x1.fcp-7F), 1, 0x1p-8);
  EXPECT_NEAR(d[65] / -std::exp(-61.0F - 0x1.fcp-7F), 1, 0x1p-8);
}

// Fails if a tile without a finite logit, or a logit of -infinity beside finite ones, gives NaN.
TEST(KeptExponents, OfMinusInfinityAreZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<std::pair<float, float>> logits(130, {-kInfinity, 0.0F});
  logits[0] = {0, 0};
  logits[129] = {-1, 0};
  const std::vector<float> d = DLogits<OnTensorCores>(DType::kBf16, logits);
  for (size_t v = 1; v < 129; ++v) EXPECT_EQ(d[v], 0) << v;
  EXPECT_LT(d[129], 0);
}

}  // namespace
}  // namespace plumbline::kernel

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/owned_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A problem of 3 rows, 5 columns and 2 dimensions with every tensor present.
OwnedProblem Small() {
  OwnedProblem problem;
  problem.hidden = HostTensor::Zeros(DType::kBf16, {3, 2});
  problem.weight = HostTensor::Zeros(DType::kBf16, {5, 2});
  problem.labels = HostTensor::Zeros(DType::kI32, {3});
  problem.temperature = HostTensor::Zeros(DType::kF32, {3});
  problem.grad_logprob = HostTensor::Zeros(DType::kF32, {3});
  problem.grad_entropy = HostTensor::Zeros(DType::kF32, {3});
  for (int64_t i = 0; i < 3; ++i) {
    problem.hidden.SetFloat(2 * i, static_cast<float>(i + 1));
    problem.hidden.SetFloat(2 * i + 1, static_cast<float>(-i - 1));
    problem.labels.SetInt(i, i + 10);
    problem.temperature->SetFloat(i, static_cast<float>(i) + 0.5F);
    problem.grad_logprob->SetFloat(i, static_cast<float>(i) + 2);
    problem.grad_entropy->SetFloat(i, static_cast<float>(i) + 3);
  }
  return problem;
}

// Fails for a wrong element size or offset, and for truncation in place of rounding to even: 1 + 2^-8
// lies halfway between two bf16, 1 + 3 * 2^-8 likewise.
TEST(OwnedProblemTest, ElementsAreStoredByDtype) {
  HostTensor bf16 = HostTensor::Zeros(DType::kBf16, {2, 2});
  bf16.SetFloat(1, 1 + 0x1p-8F);
  bf16.SetFloat(2, 1 + 0x3p-8F);
  EXPECT_EQ(bf16.GetFloat(1), 1);
  EXPECT_EQ(bf16.GetFloat(2), 1 + 0x1p-6F);
  EXPECT_EQ(bf16.GetBits(1), 0x3f80u);
  EXPECT_EQ(bf16.GetBits(0), 0u);
  EXPECT_EQ(bf16.GetBits(3), 0u);
  bf16.SetBits(3, 0xff80);
  EXPECT_EQ(bf16.GetFloat(3), -std::numeric_limits<float>::infinity());

  HostTensor f16 = HostTensor::Zeros(DType::kF16, {1});
  f16.SetFloat(0, 0x1p-24F);
  EXPECT_EQ(f16.GetBits(0), 1u);
  EXPECT_EQ(f16.GetFloat(0), 0x1p-24F);

  HostTensor i64 = HostTensor::Zeros(DType::kI64, {2});
  i64.SetInt(1, int64_t{-5} << 40);
  EXPECT_EQ(i64.GetInt(1), int64_t{-5} << 40);
  EXPECT_EQ(i64.GetInt(0), 0);
  HostTensor i32 = HostTensor::Zeros(DType::kI32, {2});
  i32.SetInt(1, -100);
  EXPECT_EQ(i32.GetInt(1), -100);
  EXPECT_EQ(i32.GetBits(1), 0xffffff9cu);
}

// Fails if a scalar counts no element, or an absent tensor is counted.
TEST(OwnedProblemTest, CountsValues) {
  OwnedProblem problem = Small();
  EXPECT_EQ(ValueCount(problem), 6 + 10 + 3 + 3 + 3 + 3);
  problem.grad_entropy.reset();
  problem.temperature = HostTensor::Zeros(DType::kF32, {});
  EXPECT_EQ(ValueCount(problem), 6 + 10 + 3 + 1 + 3);
}

// Fails if a view is transposed, has another rank or stride, or if a broadcast gradient is read per row
// while a target sees element 0 (and the other way round for a scalar).
TEST(OwnedProblemTest, DenseViewIsWhatATargetSees) {
  OwnedProblem problem = Small();
  kernel::Problem view = DenseView(problem);
  EXPECT_EQ(view.rows(), 3);
  EXPECT_EQ(view.vocab(), 5);
  EXPECT_EQ(view.hidden_size(), 2);
  EXPECT_EQ(view.hidden.data, problem.hidden.bytes.data());
  EXPECT_EQ(view.hidden.stride[0], 2);
  EXPECT_EQ(view.hidden.stride[1], 1);
  EXPECT_EQ(view.labels.rank, 1);
  EXPECT_EQ(view.labels.stride[0], 1);
  EXPECT_EQ(view.grad_logprob->stride[0], 1);

  problem.layout.grad_stride = 2;  // a stride in memory does not change values
  EXPECT_EQ(DenseView(problem).grad_logprob->stride[0], 1);
  problem.layout.grad_stride = 0;
  view = DenseView(problem);
  EXPECT_EQ(view.grad_logprob->stride[0], 0);
  EXPECT_EQ(view.grad_entropy->stride[0], 0);
  EXPECT_EQ(view.grad_entropy->shape[0], 3);

  problem.reduction = kernel::Reduction::kSum;
  problem.grad_logprob = HostTensor::Zeros(DType::kF32, {});
  view = DenseView(problem);
  EXPECT_EQ(view.grad_logprob->rank, 0);
  EXPECT_EQ(view.grad_logprob->size(), 1);
}

// Fails if rows come in another order, weight or options change, a repeated row is dropped, or a row
// alone gets its own stored gradient where the layout broadcasts element 0.
TEST(OwnedProblemTest, SelectsRows) {
  OwnedProblem problem = Small();
  problem.ignore_index = 11;
  OwnedProblem selected = SelectRows(problem, {2, 0, 2});
  EXPECT_EQ(Inconsistency(selected), std::nullopt);
  EXPECT_EQ(selected.weight, problem.weight);
  EXPECT_EQ(selected.ignore_index, 11);
  const float sign[] = {3, -3, 1, -1, 3, -3};
  for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(selected.hidden.GetFloat(k), sign[k]);
  EXPECT_EQ(selected.labels.GetInt(0), 12);
  EXPECT_EQ(selected.labels.GetInt(1), 10);
  EXPECT_EQ(selected.temperature->GetFloat(0), 2.5F);
  EXPECT_EQ(selected.grad_logprob->GetFloat(0), 4);
  EXPECT_EQ(selected.grad_entropy->GetFloat(2), 5);

  problem.layout.grad_stride = 0;
  selected = SelectRows(problem, {2});
  EXPECT_EQ(selected.grad_logprob->GetFloat(0), 2);
  EXPECT_EQ(selected.grad_entropy->GetFloat(0), 3);

  problem.reduction = kernel::Reduction::kMean;
  problem.grad_logprob = HostTensor::Zeros(DType::kF32, {});
  problem.grad_logprob->SetFloat(0, 9);
  problem.temperature.reset();
  selected = SelectRows(problem, {1});
  EXPECT_EQ(selected.grad_logprob->GetFloat(0), 9);
  EXPECT_EQ(selected.rows(), 1);
  EXPECT_EQ(SelectRows(problem, {}).rows(), 0);
}

TEST(OwnedProblemTest, SmallAndEmptyProblemsAreConsistent) {
  EXPECT_EQ(Inconsistency(Small()), std::nullopt);
  OwnedProblem empty;
  empty.hidden = HostTensor::Zeros(DType::kF32, {0, 0});
  empty.weight = HostTensor::Zeros(DType::kF32, {0, 0});
  empty.labels = HostTensor::Zeros(DType::kI64, {0});
  EXPECT_EQ(Inconsistency(empty), std::nullopt);
}

// Breaks one thing at a time. Fails if a check is missing, or its message does not name the tensor and
// the value.
TEST(OwnedProblemTest, InconsistencyNamesTensorAndValue) {
  struct Breakage {
    std::string tensor, value;
    std::function<void(OwnedProblem*)> apply;
  };
  const auto f32 = [](std::vector<int64_t> shape) { return HostTensor::Zeros(DType::kF32, shape); };
  const std::vector<Breakage> breakages = {
      {"hidden", "int32",
       [](OwnedProblem* p) {
         p->hidden = HostTensor::Zeros(DType::kI32, {3, 2});
       }},
      {"hidden", "rank 1", [](OwnedProblem* p) { p->hidden = HostTensor::Zeros(DType::kBf16, {6}); }},
      {"hidden", "11 bytes", [](OwnedProblem* p) { p->hidden.bytes.resize(11); }},
      {"hidden", "[3, 3]",
       [](OwnedProblem* p) {
         p->hidden.shape = {3, 3};
       }},
      {"hidden", "-3",
       [](OwnedProblem* p) {
         p->hidden.shape = {-3, -2};
       }},
      {"weight", "fp16", [](OwnedProblem* p) { p->weight.dtype = DType::kF16; }},
      {"weight", "[2, 5]",
       [](OwnedProblem* p) {
         p->weight.shape = {2, 5};
       }},
      // The number of bytes does not limit these dimensions.
      {"weight", "1125899906842624",
       [](OwnedProblem* p) {
         p->hidden = HostTensor::Zeros(DType::kBf16, {3, 0});
         p->weight = HostTensor::Zeros(DType::kBf16, {int64_t{1} << 50, 0});
       }},
      {"weight", "[1099511627776, 1099511627776]",
       [](OwnedProblem* p) {
         p->weight.shape = {int64_t{1} << 40, int64_t{1} << 40};
       }},
      {"labels", "fp32", [&](OwnedProblem* p) { p->labels = f32({3}); }},
      {"labels", "[2]", [](OwnedProblem* p) { p->labels = HostTensor::Zeros(DType::kI32, {2}); }},
      {"temperature", "[2]", [&](OwnedProblem* p) { p->temperature = f32({2}); }},
      {"temperature", "rank 2",
       [&](OwnedProblem* p) {
         p->temperature = f32({3, 1});
       }},
      {"temperature", "bf16",
       [](OwnedProblem* p) { p->temperature = HostTensor::Zeros(DType::kBf16, {3}); }},
      {"grad_logprob", "[4]", [&](OwnedProblem* p) { p->grad_logprob = f32({4}); }},
      {"grad_logprob", "rank 1", [](OwnedProblem* p) { p->reduction = kernel::Reduction::kSum; }},
      {"grad_logprob", "rank 0", [&](OwnedProblem* p) { p->grad_logprob = f32({}); }},
      {"grad_entropy", "rank 0", [&](OwnedProblem* p) { p->grad_entropy = f32({}); }},
      {"grad_entropy", "[0]", [&](OwnedProblem* p) { p->grad_entropy = f32({0}); }},
      {"hidden_padding", "-1", [](OwnedProblem* p) { p->layout.hidden_padding = -1; }},
      {"weight_padding", "17179869184",
       [](OwnedProblem* p) { p->layout.weight_padding = 2 * kMaxStride; }},
      {"label_offset", "-7", [](OwnedProblem* p) { p->layout.label_offset = -7; }},
      {"grad_stride", "-2", [](OwnedProblem* p) { p->layout.grad_stride = -2; }},
  };
  for (const Breakage& breakage : breakages) {
    OwnedProblem problem = Small();
    breakage.apply(&problem);
    const auto why = Inconsistency(problem);
    ASSERT_TRUE(why.has_value()) << breakage.tensor << " " << breakage.value;
    EXPECT_THAT(*why, AllOf(HasSubstr(breakage.tensor), HasSubstr(breakage.value)));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The memory that the CUDA operator asks for. Host arithmetic: needs no GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

struct Asked {
  int64_t n = 8192, h = 4096, v = 151936;
  DType dtype = DType::kBf16;
  bool gradients = true;
  bool fp32_gradients = false;
};

class CudaSizes : public testing::TestWithParam<CudaPath> {
 protected:
  static Sizes Of(const Asked& a) {
    Problem problem;
    problem.hidden = {nullptr, a.dtype, 2, {a.n, a.h}, {a.h, 1}};
    problem.weight = {nullptr, a.dtype, 2, {a.v, a.h}, {a.h, 1}};
    problem.labels = {nullptr, DType::kI64, 1, {a.n, 1}, {1, 1}};
    const Tensor rows{nullptr, DType::kF32, 1, {a.n, 1}, {1, 1}};
    Results results;
    results.logprob = rows;
    results.entropy = rows;
    results.lse = rows;
    const DType grads = a.fp32_gradients ? DType::kF32 : a.dtype;
    if (a.gradients) {
      results.grad_hidden = Tensor{nullptr, grads, 2, {a.n, a.h}, {a.h, 1}};
      results.grad_weight = Tensor{nullptr, grads, 2, {a.v, a.h}, {a.h, 1}};
    }
    Sizes sizes;
    const Status status =
        GetSizes(problem, results, {.device = Device::kCuda, .path = GetParam()}, &sizes);
    EXPECT_TRUE(status.ok()) << status.message;
    return sizes;
  }
};

constexpr size_t kMiB = size_t{1} << 20;

// The project's promise at the size of a large model. Fails if a buffer is added or double-buffered.
TEST_P(CudaSizes, OfALargeModel) {
  const Sizes infer = Of({.gradients = false});
  EXPECT_LE(infer.workspace, 96 * kMiB);
  EXPECT_EQ(infer.saved, 0u);
  EXPECT_GT(infer.workspace, 0u);
  const Sizes train = Of({});
  EXPECT_LE(train.workspace, 450 * kMiB);
  EXPECT_LE(train.saved, 8192u * 64);
  EXPECT_GT(train.saved, 0u);
}

// No N x V memory is needed. Fails if the largest of all dtypes is not far below the logits in fp32.
TEST_P(CudaSizes, AreFarBelowTheLogits) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (const bool fp32 : {false, true}) {
      const size_t logits = size_t{8192} * 151936 * 4;
      EXPECT_LT(Of({.dtype = dtype, .fp32_gradients = fp32}).workspace, logits / 3) << fp32;
    }
  }
}

// Fails if a row needs more per column of the vocabulary than its share of a partial sum, such as a
// logit.
TEST_P(CudaSizes, GrowWithTheVocabularyByPartialsOnly) {
  const Sizes once = Of({.v = 151936, .gradients = false});
  const Sizes twice = Of({.v = 2 * 151936, .gradients = false});
  EXPECT_LE(twice.workspace, 2 * once.workspace + 4096);
  const Sizes train = Of({.v = 151936}), train_twice = Of({.v = 2 * 151936});
  EXPECT_LE(train_twice.workspace, train.workspace + 96 * kMiB);  // chunks may become smaller
}

TEST_P(CudaSizes, OfNothing) {
  EXPECT_EQ(Of({.n = 0}).saved, 0u);
  EXPECT_LE(Of({.n = 1, .h = 1, .v = 1}).workspace, 4 * kMiB);
}

// Fails if a machine without a device gives a crash and no message, or if sizes need a device.
TEST_P(CudaSizes, ACallWithoutADeviceSaysSo) {
  if (device::WhyNoDevice().empty()) GTEST_SKIP() << "there is a device here";
  PlacedProblem placed(TestValues::Random(DType::kBf16, 2, 3, 4, 1));
  const Execution execution = OnDevice(GetParam());
  Sizes sizes;
  ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), execution, &sizes).ok());
  alignas(64) static std::byte never_read[64];
  const Status status = Forward(placed.problem(), placed.results(), execution, never_read, never_read);
  EXPECT_EQ(status.code, Code::kFailed);
  EXPECT_THAT(status.message, testing::HasSubstr("cudaGetDevice"));
}

INSTANTIATE_TEST_SUITE_P(Paths, CudaSizes, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

// SPDX-License-Identifier: Apache-2.0
//
// Labels whose logits are -inf, on each path, with logits kept and without. Expected values are exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/support/infinite_label.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using ::testing::IsEmpty;

// Calls Forward and Backward.
TestOutputs Apart(const TestValues& values, const Execution& execution) {
  PlacedProblem placed(values);
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  const Status status = call.Run();
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(device.Fetch(), IsEmpty());
  return placed.Outputs();
}

// Calls ForwardBackward, which keeps all logits.
TestOutputs AtOnce(const TestValues& values, const Execution& execution) {
  PlacedProblem placed(values);
  DeviceProblem device(placed.problem(), placed.results());
  size_t bytes = 0;
  EXPECT_TRUE(GetForwardBackwardSize(device.problem(), device.results(), execution, &bytes).ok());
  const DeviceBuffer workspace(bytes);
  const Status status =
      ForwardBackward(device.problem(), device.results(), execution, {}, workspace.data());
  EXPECT_TRUE(status.ok()) << status.message;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_THAT(device.Fetch(), IsEmpty());
  return placed.Outputs();
}

using GpuInfiniteLabel = OnEachPath;

// Fails if dz of the label is 0 on some path, or NaN, if a dtype's planes lose its product with the
// infinite weight, or if k moves a label of p = 0.
TEST_P(GpuInfiniteLabel, HasTheDefinitionsGradient) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (const float g : {1.0f, -2.0f}) {
      for (const float k : {0.0f, 4.0f}) {
        for (const float temperature : {1.0f, 0.25f}) {
          const TestValues values = InfiniteLabel(dtype, g, k, temperature);
          const TestOutputs apart = Apart(values, On());
          EXPECT_EQ(TestOutputs::Float(apart.logprob[0]), -std::numeric_limits<float>::infinity());
          ExpectInfiniteLabel(apart, g, -0.5f, temperature);
          ExpectInfiniteLabel(AtOnce(values, On()), g, -0.5f, temperature);
        }
      }
    }
  }
}

// Fails if a reduction leaves the label's gradient out or does not divide it.
TEST_P(GpuInfiniteLabel, HasItUnderReductions) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    TestValues values = InfiniteLabel(DType::kF32, 0, 1, 2);
    values.reduction = reduction;
    values.g = {4};
    const float g = reduction == Reduction::kSum ? -4 : -2;
    ExpectInfiniteLabel(Apart(values, On()), g, g, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuInfiniteLabel, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

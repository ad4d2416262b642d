// SPDX-License-Identifier: Apache-2.0
//
// Calls in which nobody asks for an entropy: forward leaves out each tile's moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/device.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/kept_calls.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using ::testing::IsEmpty;

class GpuWithoutEntropy : public KeepingOnEachPath {
 protected:
  // Columns of a tile of forward on the path under test.
  static int TileColumns() {
    int capability = 0;
    EXPECT_TRUE(cuda::GetComputeCapability(&capability).ok());
    return GetParam() == CudaPath::kBest && capability == 90 ? 192 : 128;
  }
};

// Returns whether every byte of forward's moments in a workspace is 0xff.
bool HasNoMoment(const std::vector<std::byte>& workspace, const cuda::Layout& layout, int columns) {
  const cuda::ForwardLayout& forward = layout.ForwardOf(columns);
  const auto begin = workspace.begin() + static_cast<std::ptrdiff_t>(forward.partial_moment);
  return std::all_of(begin, begin + forward.partials * forward.row_block * 4,
                     [](std::byte b) { return b == std::byte{0xff}; });
}

// Fails if another output has other bits without the entropy, if what is read instead of a moment is
// not a number, or if moments are computed for nobody.
TEST_P(GpuWithoutEntropy, ForwardAloneHasTheBitsThatItHasWithOne) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (const int64_t n : {77, 300}) {
      const TestValues values = Ragged(dtype, n, 1003, 31, 45, /*invalid=*/true);
      TestOutputs with = Apart(values, {}, On());
      PlacedProblem placed(values);
      Results results = placed.results();
      results.entropy.reset();
      results.grad_hidden.reset();
      results.grad_weight.reset();
      DeviceProblem device(placed.problem(), results);
      DeviceCall call(device, On());
      ASSERT_TRUE(call.Run().ok());
      EXPECT_THAT(device.Fetch(), IsEmpty());
      const TestOutputs without = placed.Outputs();
      EXPECT_EQ(without.logprob, with.logprob);
      EXPECT_EQ(without.lse, with.lse);
      EXPECT_EQ(without.first_invalid_row, with.first_invalid_row);
      const std::optional<cuda::Layout> layout = cuda::MakeLayout(placed.problem(), results);
      ASSERT_TRUE(layout.has_value());
      EXPECT_TRUE(HasNoMoment(call.workspace().Get(), *layout, TileColumns())) << Name(dtype);
    }
  }
}

// A mean whose entropy has no gradient: whatever is kept, no entropy is needed. Fails as the test
// above, for gradients too.
TEST_P(GpuWithoutEntropy, AMeanHasTheBitsThatItHasWithOne) {
  for (const auto& [dtype, form] : kKinds) {
    TestValues values = Ragged(dtype, 300, 1003, 32);
    values.reduction = Reduction::kMean;
    values.g = {0.7f};
    values.k.clear();
    const TestOutputs with = Apart(values, {}, In(form));
    for (const size_t limit : Limits(values, form)) {
      PlacedProblem placed(values);
      Results results = placed.results();
      results.entropy.reset();
      DeviceProblem device(placed.problem(), results);
      Execution execution = In(form);
      execution.kept_logits_bytes = limit;
      OneCall call(device, device.problem(), execution, 0xff);
      ASSERT_TRUE(call.Run({}).ok());
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      EXPECT_THAT(device.Fetch(), IsEmpty());
      const TestOutputs without = placed.Outputs();
      SCOPED_TRACE(testing::Message() << Name(dtype) << static_cast<int>(form) << " limit " << limit);
      EXPECT_EQ(without.loss, with.loss);
      EXPECT_EQ(without.lse, with.lse);
      EXPECT_EQ(without.grad_hidden, with.grad_hidden);
      EXPECT_EQ(without.grad_weight, with.grad_weight);
    }
  }
}

// Fails if an entropy that only its gradient, or the function of upstream gradients, needs is left out.
TEST_P(GpuWithoutEntropy, IsComputedWhereItsGradientIsGiven) {
  const TestValues values = Ragged(DType::kBf16, 77, 1003, 33);
  const TestOutputs with = Apart(values, {}, On());
  PlacedProblem placed(values);
  Results results = placed.results();
  results.entropy.reset();
  DeviceProblem device(placed.problem(), results);
  OneCall call(device, device.problem(), On(), 0xff);
  ASSERT_TRUE(call.Run({}).ok());
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_THAT(device.Fetch(), IsEmpty());
  EXPECT_EQ(placed.Outputs().grad_hidden, with.grad_hidden);
  EXPECT_EQ(placed.Outputs().grad_weight, with.grad_weight);
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuWithoutEntropy, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

// SPDX-License-Identifier: Apache-2.0
//
// Both gradients of few rows by one sweep over weight. Their bits are compared with those of calls that
// ask for one gradient alone, which products compute. Only Hopper's path has a sweep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/kept_calls.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using GpuSweep = OnEachPath;
using ::testing::IsEmpty;

struct Wanted {
  bool hidden = true, weight = true;
};

// Returns the gradients that are wanted. Memory is NaN before. With `packed`, weight cannot be read
// where it lies.
TestOutputs Gradients(const TestValues& values, const Execution& execution, Wanted wanted,
                      bool packed = false) {
  PlacedProblem placed(values);
  std::optional<PlacedProblem> transposed;
  if (packed) {
    transposed.emplace(values, TestLayout{.hidden_major = true});
    placed.problem().weight = transposed->problem().weight;
  }
  if (!wanted.hidden) placed.results().grad_hidden.reset();
  if (!wanted.weight) placed.results().grad_weight.reset();
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  const Status status = call.Run();
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(device.Fetch(), IsEmpty());
  EXPECT_TRUE(call.GuardsIntact());
  return placed.Outputs();
}

void ExpectSameBits(const TestValues& values, const Execution& execution, bool packed = false) {
  PlacedProblem asked(values);
  const std::optional<cuda::Layout> made =
      cuda::MakeLayout(asked.problem(), asked.results(), {.bytes = execution.saved_logits_bytes});
  ASSERT_TRUE(made.has_value());
  ASSERT_TRUE(made->backward.sweeps);
  const TestOutputs both = Gradients(values, execution, {}, packed);
  EXPECT_TRUE(both.grad_hidden == Gradients(values, execution, {.weight = false}, packed).grad_hidden);
  EXPECT_TRUE(both.grad_weight == Gradients(values, execution, {.hidden = false}, packed).grad_weight);
}

// Fails if a stretch is added out of order, if a stage or hidden's columns are overwritten before they
// have been read, or if the columns past the vocabulary are stored. The largest has several units a
// cluster.
TEST_P(GpuSweep, HasTheBitsOfProducts) {
  struct Shape {
    int64_t n, h, v;
  };
  for (const auto& [n, h, v] : {Shape{1, 512, 37}, Shape{64, 512, 385}, Shape{65, 1024, 5003},
                                Shape{128, 1536, 4160}, Shape{128, 4096, 12289}}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      if (dtype == DType::kF16 && h == 4096) continue;
      SCOPED_TRACE(testing::Message() << n << " x " << h << " x " << v << " " << Name(dtype));
      const TestValues values = TestValues::Random(dtype, n, v, h, 21);
      ExpectSameBits(values, On());
      if (h < 2000) ExpectSameBits(values, On(), true);
    }
  }
}

// Fails if a row that takes no part changes a gradient. Where at most 64 of more rows take part, memory
// of the other d_logits is NaN.
TEST_P(GpuSweep, LeavesOutRowsWithoutGradient) {
  for (const int64_t live : {0, 1, 64, 70}) {
    TestValues values = TestValues::Random(DType::kBf16, 110, 1003, 512, 22);
    for (size_t i = 0; i < static_cast<size_t>(values.n - live); ++i) {
      values.labels[i] = values.ignore_index;
      values.k[i] = 0;
    }
    SCOPED_TRACE(testing::Message() << live << " rows");
    ExpectSameBits(values, On());
  }
}

// Fails if kept exponents or logits, all or those of a part of the vocabulary, change a gradient, also
// where backward may write over them, or if d_logits of a part of a row are not made.
TEST_P(GpuSweep, KeepsLogits) {
  for (const auto& [dtype, form] : kKinds) {
    if (dtype == DType::kF32) continue;
    for (const int64_t v : {4100, 12300}) {  // d_logits of a row in two parts, and in four
      if (v > 5000 && (dtype != DType::kBf16 || form != KeptForm::kDefault)) continue;
      const TestValues values = Ragged(dtype, 77, v, 23, 512);
      Execution keeps_none = On();
      keeps_none.kept_form = form;
      const TestOutputs none = Gradients(values, keeps_none, {});
      for (const size_t limit : Limits(values, form)) {
        for (const bool consumed : {false, true}) {
          SCOPED_TRACE(testing::Message() << Name(dtype) << static_cast<int>(form) << " " << v << " "
                                          << limit << " " << consumed);
          Execution execution = On();
          execution.kept_form = form;
          execution.saved_logits_bytes = execution.kept_logits_bytes = limit;
          execution.saved_is_consumed = consumed;
          ExpectSameBits(values, execution);
          const TestOutputs kept = Gradients(values, execution, {});
          EXPECT_TRUE(kept.grad_hidden == none.grad_hidden);
          EXPECT_TRUE(kept.grad_weight == none.grad_weight);
          EXPECT_TRUE(AtOnce(values, execution).grad_hidden ==
                      Apart(values, {}, execution).grad_hidden);
        }
      }
    }
  }
}

// Drawing and comparing the largest problems takes most of the time, so other paths are left out.
INSTANTIATE_TEST_SUITE_P(Paths, GpuSweep, testing::Values(CudaPath::kBest), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

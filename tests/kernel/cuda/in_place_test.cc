// SPDX-License-Identifier: Apache-2.0
//
// d_logits in the place of kept exponents, where backward may write over them: within one call, and on
// a saved state that is consumed. The bits are compared with those of calls that keep nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

using GpuInPlace = KeepingOnEachPath;
using ::testing::IsEmpty;

// d_logits lie in the place of exponents, of several chunks, with a weight that is read as it lies and
// one that is packed. Rows of backward's list have another place than forward's. 200 rows have tiles of
// 128 rows of grad_hidden, beside whose end several chunks of grad_weight run as one product. 1300
// columns of hidden occupy every multiprocessor, so that totals of grad_hidden lie behind the d_logits
// of a row, which lie further ahead than a chunk needs. Fails if d_logits are written over exponents
// that are still to be read, or totals over d_logits that are.
TEST_P(GpuInPlace, HasTheBitsOfForwardAndBackward) {
  struct Shape {
    int64_t n, h, v;
    TestLayout layout;
    bool behind = false;
  };
  int ends = 0;  // of several chunks
  for (const auto& [n, h, v, layout, behind] :
       {Shape{3072, 200, 60000, {}}, Shape{3072, 200, 60000, {.hidden_major = true}},
        Shape{200, 600, 60000, {}}, Shape{3001, 1300, 23400, {}, true},
        Shape{3001, 1300, 23400, {.hidden_major = true}, true}}) {
    const TestValues values = Ragged(DType::kBf16, n, v, 10, h);
    const TestOutputs apart = Apart(values, layout, On());
    for (const size_t limit : {AllBytes(values, KeptForm::kDefault) / 20 * 13, ~size_t{0}}) {
      SCOPED_TRACE(testing::Message() << n << " rows, limit " << limit << " " << layout.hidden_major);
      PlacedProblem placed(values, layout);
      const std::optional<cuda::Layout> made =
          cuda::MakeLayout(placed.problem(), placed.results(), {.bytes = limit, .consumed = true});
      ASSERT_TRUE(made.has_value());
      ASSERT_GT(made->backward.ahead, 0);
      ASSERT_EQ(made->backward.totals_behind, behind && made->first_kept == 0);
      ASSERT_EQ(made->backward.ahead > made->backward.kept.most, made->backward.totals_behind);
      ASSERT_GT(made->v - made->first_kept, 4 * made->backward.kept.most);
      ends += made->backward.end_columns > made->backward.kept.most ? 1 : 0;
      DeviceProblem device(placed.problem(), placed.results());
      Execution execution = On();
      execution.kept_logits_bytes = execution.saved_logits_bytes = limit;
      execution.saved_is_consumed = true;
      OneCall call(device, device.problem(), execution, 0xff);
      ASSERT_TRUE(call.Run({}).ok());
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      EXPECT_THAT(device.Fetch(), IsEmpty());
      EXPECT_TRUE(call.workspace->GuardsIntact());
      EXPECT_TRUE(placed.Outputs() == apart);
      EXPECT_TRUE(Apart(values, layout, execution) == apart);
    }
  }
  EXPECT_GT(ends, 0);
}

// Small problems in shortened chunks, which divide them as memory divides large ones: two buffers of
// d_logits, d_logits beside products in place, totals behind them, and stretches in turn. The last two
// have a stretch of two chunks, and a sweep. In two calls and in one. Fails if the length of chunks
// changes a bit, or needs other memory than is asked for.
TEST_P(GpuInPlace, ShortChunksChangeNoBit) {
  struct Shape {
    int64_t n, h, v;
  };
  int behind = 0, two = 0;
  for (const auto& [dtype, form] : kKinds) {
    for (const auto& [n, h, v] : {Shape{77, 45, 1003}, Shape{200, 64, 2003}, Shape{70, 32, 600},
                                  Shape{33, 24, 12300}, Shape{90, 512, 900}}) {
      const TestValues values = Ragged(dtype, n, v, 13, h);
      const TestOutputs want = Apart(values, {}, In(form));
      for (const bool hidden_major : {false, true}) {
        for (const size_t limit : Limits(values, form)) {
          for (const bool consumed : {false, true}) {
            for (const int64_t chunk : {384, 768}) {
              SCOPED_TRACE(testing::Message() << Name(dtype) << static_cast<int>(form) << " " << n
                                              << " x " << h << " x " << v << " limit " << limit
                                              << " chunk " << chunk << " " << consumed << hidden_major);
              PlacedProblem placed(values, {.hidden_major = hidden_major});
              const std::optional<cuda::Layout> made = cuda::MakeLayout(
                  placed.problem(), placed.results(), {limit, form, consumed, /*blocks=*/false, chunk});
              ASSERT_TRUE(made.has_value());
              behind += made->backward.totals_behind ? 1 : 0;
              two += made->backward.ahead == 0 && made->backward.kept.two ? 1 : 0;
              DeviceProblem device(placed.problem(), placed.results());
              Execution execution = In(form);
              execution.saved_logits_bytes = limit;
              execution.saved_is_consumed = consumed;
              DeviceCall call(device, execution, 0xff, chunk);
              ASSERT_TRUE(call.Run().ok());
              EXPECT_THAT(device.Fetch(), IsEmpty());
              EXPECT_TRUE(call.GuardsIntact());
              EXPECT_TRUE(placed.Outputs() == want);
              if (consumed) continue;  // says nothing to a single call
              execution.kept_logits_bytes = limit;
              EXPECT_TRUE(AtOnce(values, execution, {.hidden_major = hidden_major}, chunk) == want);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(behind, 0);
  EXPECT_GT(two, 0);
}

// Every row is live, and their number and the vocabulary's last tile leave no room. Fails if the tile's
// columns past the vocabulary are stored as if they were kept.
TEST_P(GpuInPlace, StoresNoColumnPastTheLast) {
  for (const int64_t v : {64, 256, 4160}) {
    const TestValues values = TestValues::Random(DType::kBf16, 256, v, 45, 12);
    Execution execution = On();
    execution.saved_logits_bytes = ~size_t{0};
    execution.saved_is_consumed = true;
    PlacedProblem placed(values);
    DeviceProblem device(placed.problem(), placed.results());
    DeviceCall apart(device, execution);
    ASSERT_TRUE(apart.Run().ok());
    EXPECT_THAT(device.Fetch(), IsEmpty());
    EXPECT_TRUE(apart.GuardsIntact()) << v;
    const TestOutputs found = placed.Outputs();
    EXPECT_TRUE(found == AtOnce(values, execution)) << v;
    EXPECT_TRUE(found == Apart(values, {}, On())) << v;
  }
}

// Fails if the gradients of a state that is consumed are others, if it needs other memory than it asks
// for, or if a second backward pass takes d_logits for exponents.
TEST_P(GpuInPlace, AConsumedStateServesOnce) {
  for (const auto& [dtype, form] : kKinds) {
    for (const int64_t v : {37, 1003, 4100}) {
      const TestValues values = Ragged(dtype, 77, v, 11);
      const TestOutputs without = Apart(values, {}, In(form));
      for (const size_t limit : Limits(values, form)) {
        SCOPED_TRACE(testing::Message()
                     << Name(dtype) << static_cast<int>(form) << " v " << v << " limit " << limit);
        Execution execution = In(form);
        execution.saved_logits_bytes = limit;
        execution.saved_is_consumed = true;
        PlacedProblem placed(values);
        DeviceProblem device(placed.problem(), placed.results());
        DeviceCall call(device, execution);
        ASSERT_TRUE(call.Run().ok());
        EXPECT_THAT(device.Fetch(), IsEmpty());
        EXPECT_TRUE(call.GuardsIntact());
        EXPECT_TRUE(placed.Outputs() == without);
        device.PoisonOutputs(0);
        ASSERT_TRUE(call.Backward().ok());
        Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        EXPECT_THAT(device.Fetch(), IsEmpty());
        const TestOutputs again = placed.Outputs();
        for (const std::vector<uint32_t>& gradient : {again.grad_hidden, again.grad_weight}) {
          EXPECT_TRUE(std::ranges::all_of(
              gradient, [](uint32_t x) { return std::isnan(TestOutputs::Float(x)); }));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuInPlace, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

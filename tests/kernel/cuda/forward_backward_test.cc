// SPDX-License-Identifier: Apache-2.0
//
// Logits, or exponents in their place, kept for backward, within one call (gradients in forward) or
// from one call to the next. All, some or none are kept, and the bits are compared with those of
// Forward and Backward in the same form, which keep none. The oracle's tests say whether the bits are
// right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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

using ::testing::HasSubstr, ::testing::IsEmpty;

// Enqueues copies of dense vectors, and keeps a copy of what it was handed in its own vectors.
struct Copying {
  explicit Copying(const TestValues& values)
      : g(values.g.size() * 4),
        k(values.k.size() * 4),
        logprob(g.size()),
        entropy(g.size()),
        lse(g.size()) {
    g.Put(values.g.data(), g.size());
    k.Put(values.k.data(), k.size());
  }
  UpstreamGradients Upstream() { return {&Answer, this}; }
  static Status Answer(void* context, const RowBlock& block) {
    Copying& self = *static_cast<Copying*>(context);
    EXPECT_EQ(block.first, 0);
    EXPECT_EQ(static_cast<size_t>(block.rows) * 4, self.g.size());
    const auto copy = [&](void* to, const void* from) {
      Check(cudaMemcpyAsync(to, from, self.g.size(), cudaMemcpyDeviceToDevice,
                            static_cast<cudaStream_t>(block.stream)),
            "cudaMemcpyAsync");
    };
    copy(self.logprob.data(), block.logprob);
    copy(self.entropy.data(), block.entropy);
    copy(self.lse.data(), block.lse);
    copy(block.grad_logprob, self.g.data());
    copy(block.grad_entropy, self.k.data());
    return Status::Ok();
  }
  DeviceBuffer g, k, logprob, entropy, lse;
};

std::vector<uint32_t> Bits(const DeviceBuffer& buffer) {
  const std::vector<std::byte> bytes = buffer.Get();
  std::vector<uint32_t> bits(bytes.size() / 4);
  std::memcpy(bits.data(), bytes.data(), bytes.size());
  return bits;
}

Problem WithoutGradients(const Problem& problem) {
  Problem without = problem;
  without.grad_logprob.reset();
  without.grad_entropy.reset();
  return without;
}

using GpuForwardBackward = KeepingOnEachPath;

// Fails if kept logits are another row's or column's, if they differ from those that backward would
// have computed, or if they overlap anything that is still needed. Fails if a byte is read before it is
// written, or if the function's gradients, or its arguments, are not those of the rows.
TEST_P(GpuForwardBackward, HasTheBitsOfForwardAndBackward) {
  const TestLayout odd{
      .hidden_major = true, .hidden_padding = 3, .weight_padding = 5, .label_offset = 1};
  for (const auto& [dtype, form] : kKinds) {
    for (const int64_t v : {37, 1003, 4100}) {
      for (const TestLayout& layout : {TestLayout{}, odd}) {
        const TestValues values = Ragged(dtype, 77, v, 1, 45, /*invalid=*/v == 37);
        const TestOutputs apart = Apart(values, layout, In(form));
        for (const size_t limit : Limits(values, form)) {
          SCOPED_TRACE(testing::Message()
                       << Name(dtype) << static_cast<int>(form) << " v " << v << " limit " << limit
                       << " padding " << layout.hidden_padding);
          PlacedProblem placed(values, layout);
          DeviceProblem device(placed.problem(), placed.results());
          Execution execution = In(form);
          execution.kept_logits_bytes = limit;
          Copying copying(values);
          OneCall call(device, WithoutGradients(device.problem()), execution, limit == 0 ? 0x42 : 0xff);
          const Status status = call.Run(copying.Upstream());
          ASSERT_TRUE(status.ok()) << status.message;
          Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
          EXPECT_THAT(device.Fetch(), IsEmpty());
          EXPECT_TRUE(call.workspace->GuardsIntact());
          const TestOutputs one = placed.Outputs();
          EXPECT_TRUE(one == apart);
          EXPECT_EQ(Bits(copying.logprob), one.logprob);
          EXPECT_EQ(Bits(copying.entropy), one.entropy);
          EXPECT_EQ(Bits(copying.lse), one.lse);
        }
      }
    }
  }
}

// Several chunks of the vocabulary, with gradients known before the call. Fails as the test above.
TEST_P(GpuForwardBackward, OfAMeanHasTheBitsOfForwardAndBackward) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    TestValues values = Ragged(DType::kBf16, 700, 6000, 2);
    values.reduction = reduction;
    values.g = {0.7f};
    const TestOutputs apart = Apart(values, {}, On());
    for (const size_t limit : Limits(values, KeptForm::kDefault)) {
      PlacedProblem placed(values);
      DeviceProblem device(placed.problem(), placed.results());
      Execution execution = On();
      execution.kept_logits_bytes = limit;
      OneCall call(device, device.problem(), execution, 0xff);
      const Status status = call.Run({});
      ASSERT_TRUE(status.ok()) << status.message;
      Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      EXPECT_THAT(device.Fetch(), IsEmpty());
      EXPECT_TRUE(placed.Outputs() == apart) << limit;
    }
  }
}

// Fails if what is saved is not what backward would have computed, if it is read before it is written
// (saved memory is full of NaN at first), or if the sizes asked for do not cover it.
TEST_P(GpuForwardBackward, ApartWithSavedLogitsHasTheSameBits) {
  const TestLayout odd{
      .hidden_major = true, .hidden_padding = 3, .weight_padding = 5, .label_offset = 1};
  for (const auto& [dtype, form] : kKinds) {
    for (const int64_t v : {37, 1003, 4100}) {
      for (const TestLayout& layout : {TestLayout{}, odd}) {
        const TestValues values = Ragged(dtype, 77, v, 5, 45, /*invalid=*/v == 37);
        const TestOutputs without = Apart(values, layout, In(form));
        for (const size_t limit : Limits(values, form)) {
          Execution execution = In(form);
          execution.saved_logits_bytes = limit;
          EXPECT_TRUE(Apart(values, layout, execution) == without)
              << Name(dtype) << static_cast<int>(form) << " v " << v << " limit " << limit
              << " padding " << layout.hidden_padding;
        }
      }
    }
  }
}

// Kept logits become d_logits in chunks of their own. With memory for two, these are made a chunk ahead
// beside the gradients' products. Fails if the memory is too small for them, if their rows have the
// distance of the other chunks' rows, or if the two chunks overlap.
TEST_P(GpuForwardBackward, OfKeptChunksHasTheBitsOfForwardAndBackward) {
  struct Shape {
    int64_t n, v, h;
    bool two;
  };
  // Weight is read in place. The shapes have chunks of one buffer, and of two.
  for (const Shape& shape : {Shape{4096, 160000, 8, false}, {3072, 60000, 1152, true}}) {
    for (const auto& [dtype, form] : kKinds) {
      const bool both = dtype == DType::kBf16 && form == KeptForm::kDefault;  // shapes
      if (dtype == DType::kF32 || (!both && shape.n != 3072)) continue;
      const TestValues values = Ragged(dtype, shape.n, shape.v, 8, shape.h);
      const TestOutputs apart = Apart(values, {}, In(form));
      for (const size_t limit : {AllBytes(values, form) / 20 * 19, ~size_t{0}}) {
        PlacedProblem placed(values);
        const std::optional<cuda::Layout> layout =
            cuda::MakeLayout(placed.problem(), placed.results(), {limit, form});
        ASSERT_TRUE(layout.has_value());
        const cuda::BackwardLayout& backward = layout->backward;
        ASSERT_EQ(backward.kept.two, shape.two);
        ASSERT_GT(layout->v - layout->first_kept, backward.kept.most);  // several chunks
        Execution execution = In(form);
        execution.saved_logits_bytes = limit;
        EXPECT_TRUE(Apart(values, {}, execution) == apart) << shape.n << " rows, limit " << limit;
        execution.kept_logits_bytes = limit;
        EXPECT_TRUE(AtOnce(values, execution) == apart) << shape.n << " rows, limit " << limit;
      }
    }
  }
}

// If one gradient alone is asked for, its product makes the whole next chunk. Fails if it makes only
// the half that it makes beside the other.
TEST_P(GpuForwardBackward, OfOneGradientAloneKeepsItsBits) {
  const TestValues values = Ragged(DType::kBf16, 3072, 60000, 9, 1152);
  const TestOutputs apart = Apart(values, {}, On());
  for (const bool of_hidden : {true, false}) {
    PlacedProblem placed(values);
    Results results = placed.results();
    (of_hidden ? results.grad_weight : results.grad_hidden).reset();
    const std::optional<cuda::Layout> layout =
        cuda::MakeLayout(placed.problem(), results, {~size_t{0}});
    ASSERT_TRUE(layout.has_value() && layout->backward.kept.two);
    DeviceProblem device(placed.problem(), results);
    Execution execution = On();
    execution.saved_logits_bytes = ~size_t{0};
    DeviceCall call(device, execution);
    const Status status = call.Run();
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_THAT(device.Fetch(), IsEmpty());
    const auto same = [&] {
      const TestOutputs alone = placed.Outputs();
      return of_hidden ? alone.grad_hidden == apart.grad_hidden
                       : alone.grad_weight == apart.grad_weight;
    };
    EXPECT_TRUE(same());
    OneCall at_once(device, device.problem(), On(), 0xff);
    ASSERT_TRUE(at_once.Run({}).ok());
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_THAT(device.Fetch(), IsEmpty());
    EXPECT_TRUE(same());
  }
}

// Several blocks of rows: 72 MiB of partial sums hold no more than 5888 rows. All rows are live, and
// the vocabulary's last tile is ragged. Fails if later blocks keep their logits over the first one's,
// or over the rows' results, which lie behind them.
TEST_P(GpuForwardBackward, OfSeveralBlocksOfRowsHasTheBitsOfForwardAndBackward) {
  const TestValues values = TestValues::Random(DType::kBf16, 6400, 200000, 45, 4);
  const TestOutputs apart = Apart(values, {}, On());
  PlacedProblem placed(values);
  DeviceProblem device(placed.problem(), placed.results());
  Execution execution = On();
  execution.kept_logits_bytes = size_t{1} << 30;
  Copying copying(values);
  OneCall call(device, WithoutGradients(device.problem()), execution, 0xff);
  const Status status = call.Run(copying.Upstream());
  ASSERT_TRUE(status.ok()) << status.message;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_THAT(device.Fetch(), IsEmpty());
  const TestOutputs one = placed.Outputs();
  EXPECT_TRUE(one == apart);
  EXPECT_EQ(Bits(copying.logprob), one.logprob);
  EXPECT_EQ(Bits(copying.lse), one.lse);
}

// Fails if the call allocates, waits or reads back, or if it remembers values of its first call.
TEST_P(GpuForwardBackward, IsCapturedAndReplayedOnOtherGradients) {
  const TestValues first = Ragged(DType::kBf16, 77, 1003, 3);
  TestValues second = first;
  TestRandom random(4);
  for (float& g : second.g) g = random.Bell();
  PlacedProblem placed(first);
  DeviceProblem device(placed.problem(), placed.results());
  const Stream stream;
  Copying copying(first);
  OneCall call(device, WithoutGradients(device.problem()), On(stream.get()), 0xff);
  Check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  const Status status = call.Run(copying.Upstream());
  cudaGraph_t graph = nullptr;
  Check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
  ASSERT_TRUE(status.ok()) << status.message;
  cudaGraphExec_t replay = nullptr;
  Check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  for (const TestValues& values : {first, second}) {
    copying.g.Put(values.g.data(), copying.g.size());
    device.PoisonOutputs(0xa5);
    call.workspace->Fill(0xff);
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Check(cudaGraphLaunch(replay, stream.get()), "cudaGraphLaunch");
    stream.Wait();
    EXPECT_THAT(device.Fetch(), IsEmpty());
    EXPECT_TRUE(placed.Outputs() == Apart(values, {}, On()));
  }
  Check(cudaGraphExecDestroy(replay), "cudaGraphExecDestroy");
  Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuForwardBackward, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

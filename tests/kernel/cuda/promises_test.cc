// SPDX-License-Identifier: Apache-2.0
//
// The promises of the CUDA operator beyond its values: memory, streams, graphs, saved states, refusals.
// Bits are compared with those of another call. The oracle's tests say whether they are right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using ::testing::HasSubstr, ::testing::IsEmpty;

// Draws a problem that is ragged in every dimension, with several tiles, an ignored row and
// temperatures. An invalid row makes all of grad_weight NaN, so that its bits say nothing.
TestValues Ragged(DType dtype, uint64_t seed, bool invalid = false) {
  TestValues values = TestValues::Random(dtype, 77, 1003, 45, seed);
  values.labels[3] = values.ignore_index;
  if (invalid) values.labels[40] = 1003;
  for (int64_t i = 0; i < values.n; ++i) {
    values.temperature.push_back(0.5f + 0.03125f * static_cast<float>(i % 40));
  }
  values.g[8] = values.k[8] = 0;
  return values;
}

constexpr std::array kDTypes = {DType::kBf16, DType::kF16, DType::kF32};

// Makes one call from scratch, and checks everything that a call must not change.
TestOutputs Once(const TestValues& values, const TestLayout& layout, const Execution& execution,
                 int poison = 0xff) {
  PlacedProblem placed(values, layout);
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution, poison);
  const Status status = call.Run();
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(device.Fetch(), IsEmpty());
  EXPECT_TRUE(call.GuardsIntact());
  return placed.Outputs();
}

using GpuMemory = OnEachPath;

// Workspace and saved state have exactly the size that was asked for. Fails if a byte of them is read
// before it is written, if a byte beyond them is touched, or if an input or padding is written.
TEST_P(GpuMemory, WorkspaceMayHoldAnythingAndNothingElseIsTouched) {
  const TestLayout odd{.hidden_padding = 3,
                       .weight_padding = 5,
                       .label_offset = 1,
                       .vector_stride = 2,
                       .label_dtype = DType::kI32};
  const TestLayout hidden_major{.hidden_major = true, .weight_padding = 1};
  for (const DType dtype : kDTypes) {
    for (const TestLayout& layout : {TestLayout{}, odd, hidden_major}) {
      const bool invalid = layout.hidden_major;
      const TestValues values = Ragged(dtype, 1, invalid);
      const TestOutputs nan = Once(values, layout, On());  // of memory full of NaN
      EXPECT_EQ(nan.first_invalid_row, invalid ? 40 : -1);
      for (const int poison : {0x00, 0x7f, 0x42}) {
        EXPECT_TRUE(Once(values, layout, On(), poison) == nan) << "poison " << poison;
      }
    }
  }
}

// A Hopper tile of few rows fetches a multiple of 8; rows of shared memory behind them have what an
// earlier call left. Fails if a result depends on these.
TEST_P(GpuMemory, WhatSharedMemoryHeldChangesNoBit) {
  if (GetParam() != CudaPath::kBest) GTEST_SKIP() << "this path fetches every row of a tile";
  const int64_t everywhere = 26'000;  // columns of which each of 132 multiprocessors has a tile of 192
  for (const DType dtype : kDTypes) {
    TestValues nan = TestValues::Random(dtype, 128, everywhere, 512, 3), zero = nan;
    for (float& x : nan.hidden) x = std::numeric_limits<float>::quiet_NaN();
    for (float& x : zero.hidden) x = 0;
    for (const int64_t rows : {1, 9, 64, 100}) {
      const TestValues few = TestValues::Random(dtype, rows, 1003, 512, 4);
      (void)Once(zero, {}, On());
      const TestOutputs want = Once(few, {}, On());
      (void)Once(nan, {}, On());
      EXPECT_TRUE(Once(few, {}, On()) == want) << Name(dtype) << " " << rows << " rows";
    }
  }
}

// Fails if a layout changes a bit.
TEST_P(GpuMemory, StridesChangeNoBit) {
  for (const DType dtype : kDTypes) {
    const TestValues values = Ragged(dtype, 2);
    const TestOutputs dense = Once(values, {}, On());
    for (const int64_t padding : {1, 2, 4, 8, 11}) {
      for (const bool hidden_major : {false, true}) {
        const TestLayout layout{
            .hidden_major = hidden_major, .hidden_padding = padding, .weight_padding = padding};
        EXPECT_TRUE(Once(values, layout, On()) == dense) << padding << hidden_major;
      }
    }
  }
}

using GpuSaved = OnEachPath;

// Fails if Backward writes the saved state, logits or not, or takes an upstream gradient from it.
TEST_P(GpuSaved, OneForwardServesSeveralBackwards) {
  TestValues first = Ragged(DType::kBf16, 3), second = first;
  TestRandom random(9);
  for (float& g : second.g) g = random.Bell();
  for (float& k : second.k) k = random.Bell() * 8;
  for (const size_t logits : {size_t{0}, ~size_t{0}}) {
    Execution execution = On();
    execution.saved_logits_bytes = logits;
    PlacedProblem one(first), two(second);
    DeviceProblem device_one(one.problem(), one.results()), device_two(two.problem(), two.results());
    DeviceCall call(device_one, execution);
    ASSERT_TRUE(call.Forward().ok());
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<std::byte> saved = call.saved().Get();
    ASSERT_FALSE(saved.empty());
    DeviceCall other(device_two,
                     execution);  // a workspace of its own, poisoned; the saved state of the first call
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(Backward(device_two.problem(), device_two.results(), execution,
                           other.workspace().data(), call.saved().data())
                      .ok());
      ASSERT_TRUE(call.Backward().ok());
    }
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_TRUE(call.saved().Get() == saved);
    EXPECT_THAT(device_one.Fetch(), IsEmpty());
    EXPECT_THAT(device_two.Fetch(), IsEmpty());
    EXPECT_TRUE(one.Outputs() == Once(first, {}, On()));
    const TestOutputs want = Once(second, {}, On());
    EXPECT_TRUE(two.Outputs().grad_hidden == want.grad_hidden);
    EXPECT_TRUE(two.Outputs().grad_weight == want.grad_weight);
  }
}

using GpuGraph = OnEachPath;

// A captured call is replayed on other values, and must give what a fresh call gives on those. Fails if
// a call allocates, waits or reads back (capture then fails), or if it keeps anything of the values it
// saw.
TEST_P(GpuGraph, CapturesACallAndReplaysItOnOtherValues) {
  for (const auto& [dtype, consumed] :
       {std::pair(DType::kF32, false), std::pair(DType::kF16, false), std::pair(DType::kBf16, false),
        std::pair(DType::kBf16, true)}) {
    Execution execution = On();
    if (consumed) execution.saved_logits_bytes = execution.kept_logits_bytes = size_t{1} << 30;
    execution.saved_is_consumed = consumed;
    const TestValues first = Ragged(dtype, 4), second = Ragged(dtype, 5);
    PlacedProblem placed(first), other(second);
    DeviceProblem device(placed.problem(), placed.results());
    const Stream stream;
    execution.stream = stream.get();
    DeviceCall call(device, execution);
    execution.stream = nullptr;
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    const Status forward = call.Forward(), backward = call.Backward();
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    ASSERT_TRUE(forward.ok()) << forward.message;
    ASSERT_TRUE(backward.ok()) << backward.message;
    cudaGraphExec_t replay = nullptr;
    Check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
    Check(cudaGraphLaunch(replay, stream.get()), "cudaGraphLaunch");
    stream.Wait();
    EXPECT_THAT(device.Fetch(), IsEmpty());
    EXPECT_TRUE(placed.Outputs() == Once(first, {}, execution));

    // Copies the other problem's values into the same device memory.
    const auto put = [](const ConstTensor& to, const ConstTensor& from) {
      Check(
          cudaMemcpy(const_cast<void*>(to.data), from.data, ExtentBytes(from), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    };
    put(device.problem().hidden, other.problem().hidden);
    put(device.problem().weight, other.problem().weight);
    put(device.problem().labels, other.problem().labels);
    put(*device.problem().temperature, *other.problem().temperature);
    put(*device.problem().grad_logprob, *other.problem().grad_logprob);
    put(*device.problem().grad_entropy, *other.problem().grad_entropy);
    device.PoisonOutputs(0xa5);
    call.workspace().Fill(0xff);
    call.saved().Fill(0xff);
    Check(cudaGraphLaunch(replay, stream.get()), "cudaGraphLaunch");
    stream.Wait();
    (void)device.Fetch();  // the inputs have changed, because this test wrote them
    EXPECT_TRUE(placed.Outputs() == Once(second, {}, execution));
    Check(cudaGraphExecDestroy(replay), "cudaGraphExecDestroy");
    Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
}

using GpuStreams = OnEachPath;

// Fails if two calls share memory that is not theirs, or if work goes to a stream other than the one
// named. The two calls are enqueued in turns and never wait for each other.
TEST_P(GpuStreams, TwoAtOnceDoNotDisturbEachOther) {
  for (const DType dtype : kDTypes) {
    const TestValues a = Ragged(dtype, 6), b = TestValues::Random(dtype, 130, 2500, 70, 7);
    PlacedProblem placed_a(a), placed_b(b);
    DeviceProblem device_a(placed_a.problem(), placed_a.results());
    DeviceProblem device_b(placed_b.problem(), placed_b.results());
    const Stream stream_a, stream_b;
    DeviceCall call_a(device_a, On(stream_a.get())), call_b(device_b, On(stream_b.get()));
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(call_a.Forward().ok());
      ASSERT_TRUE(call_b.Forward().ok());
      ASSERT_TRUE(call_a.Backward().ok());
      ASSERT_TRUE(call_b.Backward().ok());
    }
    stream_a.Wait();
    stream_b.Wait();
    EXPECT_THAT(device_a.Fetch(), IsEmpty());
    EXPECT_THAT(device_b.Fetch(), IsEmpty());
    EXPECT_TRUE(placed_a.Outputs() == Once(a, {}, On()));
    EXPECT_TRUE(placed_b.Outputs() == Once(b, {}, On()));
  }
}

// Fails if threads whose first calls come at once disturb each other in what a process or a thread
// remembers of devices, kernels and shapes.
TEST_P(GpuStreams, SeveralThreadsGetTheSameBits) {
  const TestValues values = Ragged(DType::kBf16, 14);
  std::array<TestOutputs, 8> found;
  std::array<std::thread, 8> threads;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&values, &found, i] {
      const Stream stream;
      found[i] = Once(values, {}, On(stream.get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TestOutputs want = Once(values, {}, On());
  for (const TestOutputs& outputs : found) EXPECT_TRUE(outputs == want);
}

using GpuArguments = OnEachPath;

// Fails if a fault is not refused before anything is written, by the argument's name and value.
TEST_P(GpuArguments, AreRefusedByName) {
  PlacedProblem placed(Ragged(DType::kBf16, 8));
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, On());
  const auto refused = [&](const Problem& problem, const Results& results, void* workspace,
                           const std::string& words) {
    const Status status = Forward(problem, results, On(), workspace, call.saved().data());
    EXPECT_EQ(status.code, Code::kInvalidArgument) << words;
    EXPECT_THAT(status.message, HasSubstr(words));
  };
  Problem problem = device.problem();
  problem.weight.shape[1] = 44;
  refused(problem, device.results(), call.workspace().data(), "44");
  problem = device.problem();
  problem.hidden.data = nullptr;
  refused(problem, device.results(), call.workspace().data(), "hidden");
  problem = device.problem();
  problem.weight.dtype = DType::kF16;
  refused(problem, device.results(), call.workspace().data(), "weight");
  Results results = device.results();
  results.lse->stride[0] = 0;
  refused(device.problem(), results, call.workspace().data(), "lse");
  refused(device.problem(), device.results(), nullptr, "workspace");
  refused(device.problem(), device.results(), call.workspace().data() + 4, "workspace");
  const Status saved = Forward(device.problem(), device.results(), On(), call.workspace().data(),
                               call.saved().data() + 4);
  EXPECT_EQ(saved.code, Code::kInvalidArgument);
  EXPECT_THAT(saved.message, HasSubstr("saved"));
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const TestOutputs before = placed.Outputs();  // poison
  EXPECT_THAT(device.Fetch(), IsEmpty());
  EXPECT_TRUE(placed.Outputs() == before) << "an output was written";
}

// Fails if an invalid label is refused rather than reported, or if a reduction with it is not NaN.
TEST_P(GpuArguments, InvalidDataIsLeftForTheCallerToRead) {
  TestValues values = Ragged(DType::kF32, 9, /*invalid=*/true);
  values.reduction = Reduction::kMean;
  values.g = {1};
  const TestOutputs outputs = Once(values, {}, On());
  EXPECT_EQ(outputs.first_invalid_row, 40);
  ASSERT_EQ(outputs.loss.size(), 1u);
  EXPECT_TRUE(std::isnan(TestOutputs::Float(outputs.loss[0])));
  values.labels[40] = 1002;
  const TestOutputs valid = Once(values, {}, On());
  EXPECT_EQ(valid.first_invalid_row, -1);
  EXPECT_FALSE(std::isnan(TestOutputs::Float(valid.loss[0])));
}

// Either gradient together with the other or alone. The problem is so large that on the Hopper path
// grad_weight begins beside grad_hidden's last tiles and is dealt to multiprocessors unevenly
// (kernel/cuda/product/schedule.h). Fails if a tile of it is then left out or if d_logits are
// overwritten too early.
using GpuGradients = OnEachPath;

TEST_P(GpuGradients, EitherIsTheSameWithoutTheOther) {
  TestValues values = TestValues::Random(DType::kBf16, 4400, 6000, 1000, 6);
  for (const bool half_ignored : {false, true}) {
    for (size_t i = 0; half_ignored && i < values.labels.size(); i += 2)
      values.labels[i] = values.ignore_index;
    const TestOutputs both = Once(values, {}, On());
    for (const bool of_hidden : {false, true}) {
      PlacedProblem placed(values);
      Results results = placed.results();
      (of_hidden ? results.grad_weight : results.grad_hidden).reset();
      DeviceProblem device(placed.problem(), results);
      DeviceCall call(device, On());
      const Status status = call.Run();
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_THAT(device.Fetch(), IsEmpty());
      const TestOutputs one = placed.Outputs();
      EXPECT_TRUE(of_hidden ? one.grad_hidden == both.grad_hidden
                            : one.grad_weight == both.grad_weight);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuGradients, EachPath(), PathName);
INSTANTIATE_TEST_SUITE_P(Paths, GpuMemory, EachPath(), PathName);
INSTANTIATE_TEST_SUITE_P(Paths, GpuSaved, EachPath(), PathName);
INSTANTIATE_TEST_SUITE_P(Paths, GpuGraph, EachPath(), PathName);
INSTANTIATE_TEST_SUITE_P(Paths, GpuStreams, EachPath(), PathName);
INSTANTIATE_TEST_SUITE_P(Paths, GpuArguments, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

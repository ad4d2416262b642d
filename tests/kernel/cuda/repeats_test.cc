// SPDX-License-Identifier: Apache-2.0
//
// The same call a thousand times while the device is busy with other work, of this process or another.
// The bits must be the same every time. A race, an atomic in the wrong place or an order that depends
// on scheduling changes some of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/kernel/cuda/support/busy_process.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/cuda/support/reference.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using GpuRepeats = OnEachPath;

std::vector<Tensor> Outputs(const Results& results) {
  std::vector<Tensor> all;
  for (const std::optional<Tensor>& t : {results.logprob, results.loss, results.entropy, results.lse,
                                         results.grad_hidden, results.grad_weight}) {
    if (t) all.push_back(*t);
  }
  return all;
}

void Repeat(const Execution& execution, const Stream& stream, DType dtype, int64_t n, int64_t v,
            int64_t h, int repeats) {
  PlacedProblem placed(TestValues::Random(dtype, n, v, h, 11));
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  ASSERT_TRUE(call.Run().ok());
  std::vector<std::unique_ptr<DeviceBuffer>> first;
  for (const Tensor& t : Outputs(device.results())) {
    const size_t bytes = ExtentBytes(AsConst(t));
    first.push_back(std::make_unique<DeviceBuffer>(bytes));
    Check(cudaMemcpy(first.back()->data(), t.data, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy");
  }
  // The device's other work: arithmetic over 64 MiB, another problem, and copies.
  const Stream arithmetic, other, copies;
  constexpr int64_t kFloats = int64_t{1} << 24;
  DeviceBuffer floats(kFloats * 4), copy(kFloats * 4);
  PlacedProblem neighbour(TestValues::Random(DType::kBf16, 200, 5000, 128, 12));
  DeviceProblem beside(neighbour.problem(), neighbour.results());
  DeviceCall beside_call(beside, OnDevice(execution.path, other.get()));
  DeviceBuffer differ(sizeof(int) * 8);
  differ.Fill(0);
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (int round = 0; round < repeats; ++round) {
    // The load starts and stops, so that blocks start at other times and places.
    if (round % 3 != 0)
      Load(reinterpret_cast<float*>(floats.data()), kFloats >> (round % 7), arithmetic.get());
    if (round % 4 == 1) {
      Check(cudaMemcpyAsync(copy.data(), floats.data(), copy.size() >> (round % 5),
                            cudaMemcpyDeviceToDevice, copies.get()),
            "cudaMemcpyAsync");
    }
    if (round % 5 < 2) {
      ASSERT_TRUE(beside_call.Forward().ok());
      ASSERT_TRUE(beside_call.Backward().ok());
    }
    ASSERT_TRUE(call.Forward().ok());
    ASSERT_TRUE(call.Backward().ok());
    size_t i = 0;
    for (const Tensor& t : Outputs(device.results())) {
      const DeviceBuffer& want = *first[i];
      Compare(t.data, want.data(), static_cast<int64_t>(want.size()),
              reinterpret_cast<int*>(differ.data()) + i++, stream.get());
      Check(cudaMemsetAsync(t.data, 0xff, want.size(), stream.get()), "cudaMemsetAsync");
    }
    if (round % 50 != 49) continue;
    stream.Wait();
    int seen[8] = {};  // whether each output has changed
    std::memcpy(seen, differ.Get().data(), sizeof seen);
    ASSERT_THAT(seen, testing::Each(0)) << "within repeats " << round - 49 << " to " << round;
  }
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_TRUE(call.GuardsIntact());
}

TEST_P(GpuRepeats, AThousandUnderLoadGiveTheSameBits) {
  const Stream stream;
  Repeat(On(stream.get()), stream, DType::kBf16, 700, 20001, 264, 1000);
}
TEST_P(GpuRepeats, AThousandOfFp16) {
  const Stream stream;
  Repeat(On(stream.get()), stream, DType::kF16, 333, 9000, 100, 1000);
}
TEST_P(GpuRepeats, AThousandOfFp32) {
  const Stream stream;
  Repeat(On(stream.get()), stream, DType::kF32, 300, 5000, 72, 1000);
}

// The test runs twice. The second time all kernels are loaded, so that its first call starts at once.
TEST_P(GpuRepeats, BesideAProcessThatTakesTurnsOnTheGpu) {
  const Stream stream;
  const BusyProcess busy;
  for (int i = 0; i < 2; ++i) {
    Repeat(On(stream.get()), stream, DType::kBf16, 700, 20001, 264, 100);
    Repeat(On(stream.get()), stream, DType::kF16, 333, 9000, 100, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuRepeats, FastPaths(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

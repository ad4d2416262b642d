// SPDX-License-Identifier: Apache-2.0
//
// Backward on a device, given a saved state that is not what Forward leaves for the same call
// (kernel/saved_header.h). The same on the host is in tests/kernel/saved_state_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using GpuForeignState = OnEachPath;

// Draws a problem with an ignored row and one without a gradient. None is invalid: that would make
// grad_weight NaN whatever the state is.
TestValues Ragged(DType dtype, uint64_t seed) {
  TestValues values = TestValues::Random(dtype, 77, 1003, 45, seed);
  values.labels[3] = values.ignore_index;
  values.g[8] = values.k[8] = 0;
  return values;
}

// Device memory of exactly these bytes without guard bands, so that compute-sanitizer sees what is read
// beyond.
class State {
 public:
  explicit State(const std::vector<std::byte>& bytes) : bytes_(bytes) {
    Check(cudaMalloc(&memory_, bytes.size()), "cudaMalloc");
    Check(cudaMemcpy(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~State() { (void)cudaFree(memory_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const void* memory() const { return memory_; }
  bool IsAsItWas() const {
    std::vector<std::byte> now(bytes_.size());
    Check(cudaMemcpy(now.data(), memory_, now.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return now == bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
  void* memory_ = nullptr;
};

// Runs Backward on a state that is not this call's, over gradients full of zeros. Returns what is
// wrong. One that is to be consumed has the memory that the call asks for.
std::string OnForeignState(const TestValues& values, const Execution& execution,
                           std::vector<std::byte> bytes) {
  PlacedProblem placed(values);
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  device.PoisonOutputs(0);
  if (execution.saved_is_consumed) bytes.resize(std::max(bytes.size(), call.sizes().saved));
  const State state(bytes);
  const Status status =
      Backward(device.problem(), device.results(), execution, call.workspace().data(), state.memory());
  if (!status.ok()) return status.message;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const std::vector<std::string> damage = device.Fetch();
  if (!damage.empty()) return damage[0];
  if (!call.GuardsIntact() || !(execution.saved_is_consumed || state.IsAsItWas()))
    return "memory that is not an output was written";
  const TestOutputs found = placed.Outputs();
  const auto numbers = [](const std::vector<uint32_t>& bits) {
    return std::ranges::count_if(bits, [](uint32_t x) { return !std::isnan(TestOutputs::Float(x)); });
  };
  const auto left = numbers(found.grad_hidden) + numbers(found.grad_weight);
  return left == 0 ? "" : std::to_string(left) + " elements of gradients are numbers";
}

// Returns the saved state of a call of its own.
std::vector<std::byte> SavedBy(const TestValues& values, const Execution& execution) {
  PlacedProblem placed(values);
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  EXPECT_TRUE(call.Forward().ok());
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return call.saved().Get();
}

// A state that Forward left under another limit, path or form, or for another problem, with logits or
// without. Fails if an element of a gradient is then a number, and under compute-sanitizer if anything
// is read beyond the end of the state.
TEST_P(GpuForeignState, OfAnotherCallMakesEveryGradientNaN) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    const TestValues values = Ragged(dtype, 10);
    const auto with = [&](size_t logits, CudaPath path) {
      Execution execution = On();
      execution.saved_logits_bytes = logits;
      execution.path = path;
      return execution;
    };
    const CudaPath other_path = GetParam() == CudaPath::kSimt ? CudaPath::kPortable : CudaPath::kSimt;
    constexpr size_t kNone = 0, kSome = 77 * 256 * 4, kAll = ~size_t{0};
    // Kept columns of an fp32 problem begin at a multiple of 384: here some are none.
    const std::vector<size_t> limits =
        dtype == DType::kF32 ? std::vector{kNone, kAll} : std::vector{kNone, kSome, kAll};
    for (const size_t logits : limits) {
      const Execution own = with(logits, GetParam());
      const auto foreign = [&](const TestValues& by, const Execution& execution, const char* what) {
        EXPECT_EQ(OnForeignState(values, own, SavedBy(by, execution)), "") << what << ", " << logits;
      };
      for (const size_t limit : limits) {
        if (limit != logits) foreign(values, with(limit, GetParam()), "another limit");
      }
      foreign(values, with(logits, other_path), "another path");
      if (dtype == DType::kBf16) {
        Execution other_form = own;
        other_form.kept_form = KeptForm::kLogits;
        foreign(values, other_form, "another form");
        EXPECT_EQ(OnForeignState(values, other_form, SavedBy(values, own)), "") << logits;
      }
      Execution consumed = own;
      consumed.saved_is_consumed = true;
      if (dtype == DType::kBf16 && logits != kNone) {
        EXPECT_EQ(OnForeignState(values, consumed, SavedBy(values, own)), "") << logits;
      }
      foreign(values.Rows({0, 1, 2}), own, "fewer rows");
      foreign(Ragged(dtype == DType::kF16 ? DType::kBf16 : DType::kF16, 10), own, "another dtype");
      foreign(TestValues::Random(dtype, 77, 1004, 45, 1), own, "another vocabulary");
    }
  }
}

// Fails if a byte of the header is not compared, or if anything behind the header is read where it
// differs (compute-sanitizer). The larger problem makes d_logits of kept logits on idle warps.
TEST_P(GpuForeignState, OfGarbageMakesEveryGradientNaN) {
  Execution execution = On();
  execution.saved_logits_bytes = ~size_t{0};
  const TestValues values = Ragged(DType::kBf16, 11);
  const std::vector<std::byte> own = SavedBy(values, execution);
  for (size_t at = 0; at < 64; at += 3) {
    std::vector<std::byte> header(own.begin(), own.begin() + 64);
    header[at] ^= std::byte{0x10};
    EXPECT_EQ(OnForeignState(values, execution, header), "") << "byte " << at;
  }
  for (const int fill : {0x00, 0x42, 0xff}) {
    const std::vector header(64, static_cast<std::byte>(fill));
    EXPECT_EQ(OnForeignState(values, execution, header), "") << fill;
  }
  if (GetParam() != CudaPath::kBest) return;
  const TestValues large = TestValues::Random(DType::kBf16, 3072, 60000, 1152, 12);
  EXPECT_EQ(OnForeignState(large, execution, std::vector<std::byte>(64)), "");
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuForeignState, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

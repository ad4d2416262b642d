// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/cuda_device.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "fuzz/target/interface/cuda_sparse.h"
#include "kernel/cuda/support/device.h"

namespace plumbline::fuzz {
namespace {

// Copies that fit go through page-locked memory of this size: a copy from pageable memory makes the
// driver wait for the stream first.
constexpr size_t kStaging = size_t{16} << 20;
// Time between attempts to allocate: another worker's case may hold the memory for a moment.
constexpr std::chrono::milliseconds kPause{50};
constexpr int kPauses = 100;

std::string Words(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Checks calls that fail only if the device does.
void Check(cudaError_t error) {
  if (error != cudaSuccess) throw DeviceLost("CUDA: " + Words(error));
}

void CUDART_CB Sleep(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<intptr_t>(microseconds)));
}

class Cuda final : public Device {
 public:
  // Throws DeviceLost.
  Cuda() {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
      throw DeviceLost("no CUDA device: " + Words(error == cudaSuccess ? cudaErrorNoDevice : error));
    }
    Check(cudaSetDevice(0));
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    void* staging = nullptr;
    Check(cudaMallocHost(&staging, kStaging));
    staging_ = static_cast<std::byte*>(staging);
  }

  DLDevice dlpack() const override { return {kDLCUDA, 0}; }
  void* stream() const override { return stream_; }

  std::byte* Allocate(size_t bytes) override {
    void* memory = nullptr;
    cudaError_t error = cudaMalloc(&memory, bytes);
    for (int i = 0; error == cudaErrorMemoryAllocation; ++i) {
      static_cast<void>(cudaGetLastError());  // it is dealt with
      const Memory now = GetMemory();
      if (bytes > now.total || i == kPauses) throw DeviceFull(bytes, now.free, now.total);
      std::this_thread::sleep_for(kPause);
      error = cudaMalloc(&memory, bytes);
    }
    Check(error);
    return static_cast<std::byte*>(memory);
  }

  void Free(std::byte* memory) override { Check(cudaFree(memory)); }

  void CopyIn(std::byte* to, const std::byte* from, size_t bytes) override {
    if (std::byte* stage = Stage(bytes)) {
      std::memcpy(stage, from, bytes);
      from = stage;
    }
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  }

  void CopyOut(std::byte* to, const std::byte* from, size_t bytes) override {
    if (std::byte* stage = Stage(bytes)) {
      arriving_.push_back({to, stage, bytes});
      to = stage;
    }
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  }

  void Fill(std::byte* to, unsigned char value, size_t bytes) override {
    Check(cudaMemsetAsync(to, value, bytes, stream_));
  }

  // Delays by a host function, which runs on a thread of the driver, so that no other worker's kernel
  // has to wait.
  void Delay(std::chrono::microseconds time) override {
    Check(cudaLaunchHostFunc(stream_, Sleep, reinterpret_cast<void*>(intptr_t{time.count()})));
  }

  std::string Wait() override {
    // If a launch was refused, the stream has no error: only cudaGetLastError reports it.
    const cudaError_t left = cudaGetLastError();
    Check(cudaStreamSynchronize(stream_));
    for (const Arrival& a : arriving_) std::memcpy(a.to, a.from, a.bytes);
    arriving_.clear();
    staged_ = 0;
    return left == cudaSuccess ? "" : "CUDA: " + Words(left);
  }

  std::byte* MapSparse(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches) override {
    if (!sparse_) without_sparse_ = !sparse_.emplace().Prepare();
    // Below this size the dense memory of Keep is faster.
    constexpr size_t kWorthIt = size_t{256} << 20;
    if (without_sparse_ || bytes < kWorthIt) return Device::MapSparse(bytes, stretches);
    std::byte* memory = sparse_->Map(bytes, stretches);
    for (int i = 0; memory == nullptr; ++i) {
      const Memory now = GetMemory();
      if (i == kPauses) throw DeviceFull(bytes, now.free, now.total);
      std::this_thread::sleep_for(kPause);
      memory = sparse_->Map(bytes, stretches);
    }
    for (const auto& [from, to] : sparse_->runs()) Fill(memory + from, 0, to - from);
    return memory;
  }
  void Unmap() override {
    if (sparse_) sparse_->Trim();
  }

  Memory GetMemory() override {
    Memory memory;
    Check(cudaMemGetInfo(&memory.free, &memory.total));
    return memory;
  }

 private:
  struct Arrival {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  // Returns null if there is no room before the next Wait.
  std::byte* Stage(size_t bytes) {
    if (bytes > kStaging - staged_) return nullptr;
    std::byte* const stage = staging_ + staged_;
    staged_ += (bytes + 63) / 64 * 64;
    return stage;
  }

  cudaStream_t stream_ = nullptr;
  std::optional<CudaSparse> sparse_;
  bool without_sparse_ = false;
  std::byte* staging_ = nullptr;
  size_t staged_ = 0;
  std::vector<Arrival> arriving_;
};

}  // namespace

Device* CudaDevice(std::string* error) {
  // The device is never destroyed: at the end of a process the driver may be gone before it.
  static std::string why;
  static Device* const device = []() -> Device* {
    try {
      return new Cuda;
    } catch (const DeviceLost& lost) {
      why = lost.what();
      return nullptr;
    }
  }();
  if (device == nullptr) *error = why;
  return device;
}

int CudaCapability() {
  int capability = 0;  // the current device's, which is the first one: nothing in fuzz/ sets another
  return kernel::cuda::GetComputeCapability(&capability).ok() ? capability : 0;
}

}  // namespace plumbline::fuzz

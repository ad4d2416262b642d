// SPDX-License-Identifier: Apache-2.0
//
// A problem on the host and its copy in device memory with the same strides, padding and offsets. Every
// tensor lies between guard bands. Outputs, padding and guard bands are poisoned with 0xff (NaN).
// Outputs are copied back to the host's; whatever else changed is damage.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::device {

// Returns why no test here can run (no CUDA in this build, or no device), or nothing.
std::string WhyNoDevice();

// Throws std::runtime_error, which names the call and quotes CUDA's error.
void Check(cudaError_t error, const char* call);

// Device memory with a guard band on either side. All of it is 0xff at first; if unfilled, the guard
// bands alone are, so that initcheck sees what is read before it is written. The fill is complete when
// the call returns: a cudaMemset would only have been enqueued by then, on a stream that non-blocking
// ones do not wait for. Throws as Check.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes, bool filled = true);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return base_ + kGuard; }
  size_t size() const { return bytes_; }
  void Fill(int byte);  // leaves the guard bands
  void Put(const void* from, size_t bytes);
  std::vector<std::byte> Get() const;
  bool GuardsIntact() const;

 private:
  static constexpr size_t kGuard = 4096;
  std::byte* base_ = nullptr;
  size_t bytes_;
};

class DeviceProblem {
 public:
  // The host's tensors must outlive it.
  DeviceProblem(const Problem& problem, const Results& results);
  ~DeviceProblem();

  const Problem& problem() const { return problem_; }
  const Results& results() const { return results_; }
  size_t bytes() const;  // device memory of this problem's views, without guard bands

  void PoisonOutputs(int byte);
  // Copies the outputs' elements to the host's. Returns what else changed, one line each.
  std::vector<std::string> Fetch();

 private:
  struct Mirror;
  std::vector<std::unique_ptr<Mirror>> mirrors_;
  Problem problem_;
  Results results_;
};

// Returns the bytes from the first to the last element of a view.
size_t ExtentBytes(const ConstTensor& tensor);

inline constexpr int kUnfilled = -1;

// Makes calls with a workspace and a saved state of exactly the size that is asked for, poisoned
// (kUnfilled: left as allocated). `chunk_columns` is that of kernel/cuda/operator.h.
class DeviceCall {
 public:
  DeviceCall(const DeviceProblem& on, const Execution& execution, int poison = 0xff,
             int64_t chunk_columns = 0);

  Status Forward();
  Status Backward();
  // Runs Forward, and Backward if a gradient is asked for. Waits for both.
  Status Run();
  bool GuardsIntact() const { return workspace_->GuardsIntact() && saved_->GuardsIntact(); }
  const Sizes& sizes() const { return sizes_; }
  DeviceBuffer& workspace() { return *workspace_; }
  DeviceBuffer& saved() { return *saved_; }

 private:
  const DeviceProblem& on_;
  Execution execution_;
  int64_t chunk_columns_;
  Sizes sizes_;
  Status refused_;
  std::unique_ptr<DeviceBuffer> workspace_, saved_;
};

inline Execution OnDevice(CudaPath path, cudaStream_t stream = nullptr) {
  return {.device = Device::kCuda, .stream = stream, .path = path};
}

}  // namespace plumbline::kernel::device

// SPDX-License-Identifier: Apache-2.0
//
// A problem on the host, mirrored in device memory as it lies there: the same strides, padding and
// offsets, every tensor between guard bands, outputs, padding and guard bands poisoned with 0xff (NaN).
// What comes back goes into the host's outputs; whatever else changed is damage.

#ifndef PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_DEVICE_PROBLEM_H_
#define PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_DEVICE_PROBLEM_H_

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

// Why no test here can run: no CUDA in this build, or no device; empty where both are there.
std::string WhyNoDevice();

// Throws std::runtime_error with the call and CUDA's words.
void Check(cudaError_t error, const char* call);

// Device memory with a guard band on either side, all of it 0xff at first, or, unfilled, the guard
// bands alone: initcheck then sees what is read before it is written. Filled when the call returns: a
// cudaMemset has only been enqueued by then, on a stream that non-blocking ones do not wait for. Throws
// as Check.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes, bool filled = true);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return base_ + kGuard; }
  size_t size() const { return bytes_; }
  void Fill(int byte);  // guard bands stay
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
  size_t bytes() const;  // of device memory that a problem of these views takes, guard bands aside

  void PoisonOutputs(int byte);
  // Copies the outputs' elements into the host's; returns what else changed, one line each.
  std::vector<std::string> Fetch();

 private:
  struct Mirror;
  std::vector<std::unique_ptr<Mirror>> mirrors_;
  Problem problem_;
  Results results_;
};

// Bytes from the first to the last element of a view.
size_t ExtentBytes(const ConstTensor& tensor);

inline constexpr int kUnfilled = -1;

// Workspace and saved state of exactly the size that is asked for, poisoned (kUnfilled: as they come),
// and the calls.
class DeviceCall {
 public:
  DeviceCall(const DeviceProblem& on, const Execution& execution, int poison = 0xff);

  Status Forward();
  Status Backward();
  // Forward, and Backward where a gradient is asked for; waits.
  Status Run();
  bool GuardsIntact() const { return workspace_->GuardsIntact() && saved_->GuardsIntact(); }
  const Sizes& sizes() const { return sizes_; }
  DeviceBuffer& workspace() { return *workspace_; }
  DeviceBuffer& saved() { return *saved_; }

 private:
  const DeviceProblem& on_;
  Execution execution_;
  Sizes sizes_;
  Status refused_;
  std::unique_ptr<DeviceBuffer> workspace_, saved_;
};

inline Execution OnDevice(CudaPath path, cudaStream_t stream = nullptr) {
  return {.device = Device::kCuda, .stream = stream, .path = path};
}

}  // namespace plumbline::kernel::device

#endif  // PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_DEVICE_PROBLEM_H_

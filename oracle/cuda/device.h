// SPDX-License-Identifier: Apache-2.0
//
// Device memory that is freed with its owner, and CUDA's errors as exceptions. They stay inside
// oracle/cuda: its entry points turn them into text.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace plumbline::oracle::cuda {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws DeviceError, which names what was being done and quotes CUDA's error.
void Check(cudaError_t status, const char* what);

// A block that grows and is kept. Allocating tens of gigabytes again for each problem takes as long as
// judging a small one.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  ~DeviceBlock() { cudaFree(data_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  // Returns at least `bytes`, uninitialised. The contents are lost if the block must grow.
  void* Get(size_t bytes, const char* what);
  template <class T>
  T* Of(int64_t count, const char* what) {
    return static_cast<T*>(Get(static_cast<size_t>(count) * sizeof(T), what));
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void Release();

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// The block's element `at`, as allocated before.
template <class T>
T* Of(const DeviceBlock& block, int64_t at = 0) {
  return static_cast<T*>(block.data()) + at;
}

template <class T>
void Upload(const std::vector<T>& from, T* to) {
  if (from.empty()) return;
  Check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copying to the device");
}

// Copies to the host, after everything enqueued before has finished. Throws DeviceError.
template <class T>
std::vector<T> Download(const T* from, int64_t count, const char* what) {
  std::vector<T> to(static_cast<size_t>(count));
  Check(cudaGetLastError(), what);
  if (count > 0)
    Check(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost), what);
  return to;
}

}  // namespace plumbline::oracle::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Device memory that ends with its owner, and CUDA's errors as exceptions: internal to oracle/cuda,
// whose entry points turn them into words.

#ifndef PLUMBLINE_ORACLE_CUDA_DEVICE_H_
#define PLUMBLINE_ORACLE_CUDA_DEVICE_H_

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

// Throws DeviceError, which says what was being done and CUDA's words for what came back.
void Check(cudaError_t status, const char* what);

// A block that grows and is kept: allocating tens of gigabytes again for each problem takes as long as
// judging a small one.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  ~DeviceBlock() { cudaFree(data_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  // At least `bytes`, uninitialised; what was there is lost if it must grow.
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

template <class T>
void Upload(const std::vector<T>& from, T* to) {
  if (from.empty()) return;
  Check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copying to the device");
}

// Waits for everything enqueued before.
template <class T>
std::vector<T> Download(const T* from, int64_t count, const char* what) {
  std::vector<T> to(static_cast<size_t>(count));
  Check(cudaGetLastError(), what);
  if (count > 0)
    Check(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost), what);
  return to;
}

}  // namespace plumbline::oracle::cuda

#endif  // PLUMBLINE_ORACLE_CUDA_DEVICE_H_

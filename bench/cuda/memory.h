// SPDX-License-Identifier: Apache-2.0
//
// Memory of the current CUDA device for the length of a scope, and CUDA's errors as exceptions that
// name the call. A benchmark turns them into SkipWithError.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::bench {

inline void Check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error) + ", " +
                             cudaGetErrorString(error));
}

// Allocates `count` elements, not initialised. Elements are copied as bytes.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(int64_t count) : count_(static_cast<size_t>(count)) {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, count_ * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() { (void)cudaFree(data_); }

  T* data() const { return data_; }
  int64_t size() const { return static_cast<int64_t>(count_); }

  std::vector<T> Get() const {
    std::vector<T> out(count_);
    Check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy from the device");
    return out;
  }
  void Put(const std::vector<T>& from) {
    if (from.size() != count_) throw std::logic_error("DeviceArray::Put: another size");
    Check(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
    // The copy may return before the data are there, and other streams do not wait for this one.
    Check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace plumbline::bench

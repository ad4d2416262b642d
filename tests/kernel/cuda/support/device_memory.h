// SPDX-License-Identifier: Apache-2.0
//
// The device memory of one run of a kernel under test. It is freed at once, also after errors of the
// device, and the first error is kept.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernel/status.h"

namespace plumbline::kernel::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    for (void* p : all_) cudaFree(p);
  }

  // Memory of at least one element, with any content.
  template <class T>
  T* New(size_t count) {
    void* p = nullptr;
    Note(cudaMalloc(&p, std::max<size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    all_.push_back(p);
    return static_cast<T*>(p);
  }
  template <class T>
  T* Copy(const std::vector<T>& from) {
    T* const p = New<T>(from.size());
    Note(cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
    return p;
  }
  template <class T>
  std::vector<T> Fetch(const T* from, size_t count) {
    std::vector<T> found(count);
    Note(cudaMemcpy(found.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "result");
    return found;
  }

  void Note(cudaError_t error, const char* what) {
    if (error != cudaSuccess && error_.empty())
      error_ = std::string(what) + ": " + cudaGetErrorString(error);
  }
  void Note(const Status& status) {
    if (!status.ok() && error_.empty()) error_ = status.message;
  }
  void NoteLaunch(const char* what) { Note(cudaGetLastError(), what); }
  const std::string& error() const { return error_; }

 private:
  std::vector<void*> all_;
  std::string error_;
};

}  // namespace plumbline::kernel::cuda

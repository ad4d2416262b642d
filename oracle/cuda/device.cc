// SPDX-License-Identifier: Apache-2.0

#include "oracle/cuda/device.h"

#include <string>

namespace plumbline::oracle::cuda {

void Check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status) + " (" +
                    cudaGetErrorName(status) + ")");
}

void* DeviceBlock::Get(size_t bytes, const char* what) {
  if (bytes <= bytes_) return data_;
  Release();
  const cudaError_t status = cudaMalloc(&data_, bytes);
  if (status != cudaSuccess) {
    data_ = nullptr;
    cudaGetLastError();  // clears the error: being out of memory must not fail the calls that follow
    const std::string text = "allocating " + std::to_string(bytes) + " bytes for " + what;
    Check(status, text.c_str());
  }
  bytes_ = bytes;
  return data_;
}

void DeviceBlock::Release() {
  cudaFree(std::exchange(data_, nullptr));
  bytes_ = 0;
}

}  // namespace plumbline::oracle::cuda

// SPDX-License-Identifier: Apache-2.0
//
// Shared by the device sources of the probe: CUDA errors as CudaFault, and the code that runs dot
// products.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "fuzz/gpu/probe/device.h"

namespace plumbline::fuzz {

inline void CheckCuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CudaFault(std::string(call) + ": " + cudaGetErrorString(error));
}

// Is called after a launch. Throws the error of the launch or of the kernel.
inline void CheckKernel(const char* kernel) {
  CheckCuda(cudaGetLastError(), kernel);
  CheckCuda(cudaDeviceSynchronize(), kernel);
}

// Shared by MmaTiles and WgmmaTiles. `launch` is given a, b and out in device memory, out all NaN, and
// enqueues the kernel called `name`.
template <class Launch>
void TilesOnDevice(const char* name, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b,
                   float* out, Launch launch) {
  const auto operands = static_cast<size_t>(tiles) * 16 * static_cast<size_t>(depth) * sizeof(uint16_t);
  const auto results = static_cast<size_t>(tiles) * 256 * sizeof(float);
  DeviceBytes left(operands), right(operands), products(results);
  left.Put(a, operands);
  right.Put(b, operands);
  products.Fill(0xff);
  launch(static_cast<const uint16_t*>(left.data()), static_cast<const uint16_t*>(right.data()),
         static_cast<float*>(products.data()));
  CheckKernel(name);
  products.Get(out, results);
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// What the device sources of the probe share: CUDA errors as CudaFault.

#ifndef PLUMBLINE_FUZZ_PROBE_CUDA_CUH_
#define PLUMBLINE_FUZZ_PROBE_CUDA_CUH_

#include <cuda_runtime.h>

#include "fuzz/probe_device.h"

namespace plumbline::fuzz {

inline void CheckCuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CudaFault(std::string(call) + ": " + cudaGetErrorString(error));
}

// After a launch: what the launch and the kernel say.
inline void CheckKernel(const char* kernel) {
  CheckCuda(cudaGetLastError(), kernel);
  CheckCuda(cudaDeviceSynchronize(), kernel);
}

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_PROBE_CUDA_CUH_

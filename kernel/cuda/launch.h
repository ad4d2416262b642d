// SPDX-License-Identifier: Apache-2.0
//
// CUDA's errors as Status, and launching without the launch operator, whose errors are left in a place
// that everybody shares.

#ifndef PLUMBLINE_KERNEL_CUDA_LAUNCH_H_
#define PLUMBLINE_KERNEL_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel/cuda/device.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

inline Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  return Status::Error(Code::kFailed, std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                                          cudaGetErrorString(error));
}

#ifdef __CUDACC__
// Kernels of `shared` > 48 KiB must have been allowed it (AllowShared).
template <class... Parameters, class... Arguments>
Status LaunchKernel(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
                    size_t shared, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return FromCuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}
#endif

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_LAUNCH_H_

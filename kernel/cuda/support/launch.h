// SPDX-License-Identifier: Apache-2.0
//
// CUDA's errors as Status, and launches that return their own error. The launch operator <<<>>> leaves
// its error in a state of the thread that every other call of the runtime shares.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel/cuda/support/device.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

inline Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  return Status::Error(Code::kFailed, std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                                          cudaGetErrorString(error));
}

#ifdef __CUDACC__
template <class... Parameters, class... Arguments>
Status LaunchWith(unsigned attributes, cudaLaunchAttribute* attribute, const char* name,
                  void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared,
                  cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = attributes;
  return FromCuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

// Launches `blocks` blocks of `threads` threads with `shared` bytes of dynamic shared memory. A kernel
// with more than 48 KiB of it must have been allowed that by cudaFuncSetAttribute.
template <class... Parameters, class... Arguments>
Status LaunchKernel(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
                    size_t shared, cudaStream_t stream, const Arguments&... arguments) {
  return LaunchWith(0, nullptr, name, kernel, blocks, threads, shared, stream, arguments...);
}

// Launches a kernel whose first statement is AwaitPreviousGrid(), so that it may start before the
// preceding kernel has ended (programmatic dependent launch; compute capability 9.0 and up).
template <class... Parameters, class... Arguments>
Status LaunchKernelEarly(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
                         size_t shared, cudaStream_t stream, const Arguments&... arguments) {
  int capability = 0;
  Status status = GetComputeCapability(&capability);
  if (!status.ok()) return status;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  return LaunchWith(capability >= 90 ? 1 : 0, &early, name, kernel, blocks, threads, shared, stream,
                    arguments...);
}
#endif

}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/cuda_paths.h"

#include <string>

#include "kernel/cuda/support/device.h"
#include "kernel/cuda/support/launch.h"
#include "kernel/saved_header.h"

namespace plumbline::fuzz {

kernel::Status FindPath(const MutantRow& mutant, const kernel::cuda::Path** path) {
  const bool hopper = mutant.path == MutantPath::kCudaHopper;
  *path = !hopper                                        ? &kMutantPortablePath
          : mutant.name == "hopper-stretch-out-of-order" ? &kMutantHopperTogetherPath
                                                         : &kMutantHopperPath;
  int capability = 0;
  const kernel::Status status = kernel::cuda::GetComputeCapability(&capability);
  if (!status.ok() || (hopper ? capability == 90 : capability >= 80)) return status;
  return kernel::Status::Error(kernel::Code::kUnsupported,
                               "the defect " + std::string(mutant.name) + " needs compute capability " +
                                   (hopper ? "9.0" : "8.0 or higher") + ", not " +
                                   std::to_string(capability / 10) + "." +
                                   std::to_string(capability % 10));
}

kernel::Status WithItsHeaderAgain(const void* saved, void* stream,
                                  const std::function<kernel::Status()>& backward) {
  using kernel::cuda::FromCuda;
  const auto on = static_cast<cudaStream_t>(stream);
  void* header = nullptr;
  const auto copy = [on](void* to, const void* from) {
    return FromCuda(
        cudaMemcpyAsync(to, from, sizeof(kernel::SavedHeader), cudaMemcpyDeviceToDevice, on),
        "cudaMemcpyAsync");
  };
  kernel::Status status =
      FromCuda(cudaMallocAsync(&header, sizeof(kernel::SavedHeader), on), "cudaMallocAsync");
  if (!status.ok()) return status;
  status = copy(header, saved);
  if (status.ok()) status = backward();
  if (status.ok()) status = copy(const_cast<void*>(saved), header);
  if (status.ok()) status = backward();
  const kernel::Status freed = FromCuda(cudaFreeAsync(header, on), "cudaFreeAsync");
  return status.ok() ? freed : status;
}

}  // namespace plumbline::fuzz

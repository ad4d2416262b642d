// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/cuda_paths.h"

#include <string>

#include "kernel/cuda/support/device.h"

namespace plumbline::fuzz {

kernel::Status FindPath(const MutantRow& mutant, const kernel::cuda::Path** path) {
  const bool hopper = mutant.path == MutantPath::kCudaHopper;
  *path = hopper ? &kMutantHopperPath : &kMutantPortablePath;
  int capability = 0;
  const kernel::Status status = kernel::cuda::GetComputeCapability(&capability);
  if (!status.ok() || (hopper ? capability == 90 : capability >= 80)) return status;
  return kernel::Status::Error(kernel::Code::kUnsupported,
                               "the defect " + std::string(mutant.name) + " needs compute capability " +
                                   (hopper ? "9.0" : "8.0 or higher") + ", not " +
                                   std::to_string(capability / 10) + "." +
                                   std::to_string(capability % 10));
}

}  // namespace plumbline::fuzz

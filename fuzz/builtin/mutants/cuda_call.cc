// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/cuda_call.h"

#include <cstdint>
#include <string>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/mutants/cuda_paths.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/support/device.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;
using kernel::cuda::Defect, kernel::cuda::DefectEntry;

thread_local PlantedCall current;

// The problem as a pass with this defect would read it.
Problem Seen(const Problem& problem, Defect defect) {
  Problem seen = problem;
  if (defect == Defect::kStrides32) {
    for (kernel::ConstTensor* matrix : {&seen.hidden, &seen.weight}) {
      for (int64_t& stride : matrix->stride) stride = static_cast<int32_t>(stride);
    }
  }
  return seen;
}

Status CheckDevice(const DefectEntry& planted) {
  int capability = 0;
  Status status = kernel::cuda::GetComputeCapability(&capability);
  const bool has = planted.portable ? capability >= 80 : capability == 90;
  if (!status.ok() || has) return status;
  return Status::Error(kernel::Code::kUnsupported,
                       "the defect " + std::string(planted.name) + " needs compute capability " +
                           (planted.portable ? "8.0 or higher" : "9.0") + ", not " +
                           std::to_string(capability / 10) + "." + std::to_string(capability % 10));
}

const kernel::cuda::Path& PortablePath(CudaPath, int) { return kPlantedPortablePath; }
const kernel::cuda::Path& HopperPath(CudaPath, int) { return kPlantedHopperPath; }

// Calls `run` with the problem as the defect makes it look, and with the path that has the defect.
template <class Run>
Status Planted(const Problem& problem, const Results& results, void* workspace,
               const DefectEntry& planted, Run run) {
  const Status status = CheckDevice(planted);
  if (!status.ok()) return status;
  const Problem seen = Seen(problem, planted.defect);
  current = {planted.defect, &seen, &results, static_cast<std::byte*>(workspace)};
  const Status ran = run(planted.portable ? PortablePath : HopperPath, seen);
  current = {};
  return ran;
}

}  // namespace

const PlantedCall& CurrentPlantedCall() { return current; }

Status ForwardPlanted(const Problem& problem, const Results& results, void* workspace, void* saved,
                      void* stream, const DefectEntry& planted) {
  return Planted(problem, results, workspace, planted,
                 [&](kernel::cuda::PathChoice path, const Problem& seen) {
                   return kernel::cuda::ForwardOn(path, seen, results, OnCuda(stream, CudaPath::kBest),
                                                  workspace, saved);
                 });
}

Status BackwardPlanted(const Problem& problem, const Results& results, void* workspace,
                       const void* saved, void* stream, const DefectEntry& planted) {
  return Planted(problem, results, workspace, planted,
                 [&](kernel::cuda::PathChoice path, const Problem& seen) {
                   return kernel::cuda::BackwardOn(path, seen, results, OnCuda(stream, CudaPath::kBest),
                                                   workspace, saved);
                 });
}

Status ForwardBackwardPlanted(const Problem& problem, const Results& results,
                              const kernel::Execution& execution,
                              const kernel::UpstreamGradients& upstream, void* workspace,
                              const DefectEntry& planted) {
  return Planted(
      problem, results, workspace, planted, [&](kernel::cuda::PathChoice path, const Problem& seen) {
        return kernel::cuda::ForwardBackwardOn(path, seen, results, execution, upstream, workspace);
      });
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/call.h"

#include <algorithm>
#include <cstdint>

#include "kernel/cuda/support/device.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;

// TMA and the lists of rows index with 32 bits.
Status CheckExtent(const char* name, int64_t extent) {
  if (extent <= kMostIndex) return Status::Ok();
  return Status::Error(Code::kUnsupported, std::string(name) + " = " + std::to_string(extent) +
                                               ": the CUDA implementation goes up to 2^31 - 1");
}

const Path& BestPath(CudaPath asked, int capability) {
  if (asked == CudaPath::kSimt || capability < 80) return kSimtPath;
  return asked == CudaPath::kBest && capability == 90 ? kHopperPath : kPortablePath;
}

}  // namespace

Status CheckAndPlan(const Problem& problem, const Results& results, const Checks& checks,
                    const Keeping& keeping, Layout* layout) {
  Checks on_device = checks;
  on_device.host_memory = false;
  Status status = Check(problem, results, on_device);
  if (status.ok()) status = CheckExtent("hidden.shape[0]", problem.rows());
  if (status.ok()) status = CheckExtent("hidden.shape[1]", problem.hidden_size());
  if (status.ok()) status = CheckExtent("weight.shape[0]", problem.vocab());
  if (!status.ok()) return status;
  const std::optional<Layout> made = MakeLayout(problem, results, keeping);
  if (!made) return WorkspaceTooLarge(problem);
  *layout = *made;
  return Status::Ok();
}

Status LookAtDevice(CudaPath asked, const Path* path, OnDevice* device) {
  int capability = 0, multiprocessors = 0;
  Status status = GetComputeCapability(&capability);
  if (status.ok()) status = CountMultiprocessors(&multiprocessors);
  if (!status.ok()) return status;
  if (capability < 75) {
    return Status::Error(Code::kUnsupported, "the current CUDA device has compute capability " +
                                                 std::to_string(capability / 10) + "." +
                                                 std::to_string(capability % 10) +
                                                 "; 7.5 is the least");
  }
  *device = {path != nullptr ? path : &BestPath(asked, capability), capability,
             std::max(multiprocessors / 2, 1)};
  return status;
}

SavedHeader HeaderOf(const Problem& problem, CudaPath asked, const OnDevice& device) {
  SavedHeader header = SavedHeaderOf(problem);
  header.path = static_cast<int32_t>(asked);
  header.capability = device.capability;
  return header;
}

}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/support/device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda {
namespace {

struct Traits {
  int32_t capability = 0;  // 0: not asked yet
  int32_t multiprocessors = 0;
};

// Cache by ordinal; devices past its end are asked each time. Threads that ask at once store the same.
constinit std::array<std::atomic<Traits>, 64> kept{};
static_assert(std::atomic<Traits>::is_always_lock_free);

Status Ask(int ordinal, Traits* traits) {
  int major = 0, minor = 0, multiprocessors = 0;
  Status status = Status::Ok();
  const auto attribute = [&](int* value, cudaDeviceAttr what) {
    if (status.ok())
      status = FromCuda(cudaDeviceGetAttribute(value, what, ordinal), "cudaDeviceGetAttribute");
  };
  attribute(&major, cudaDevAttrComputeCapabilityMajor);
  attribute(&minor, cudaDevAttrComputeCapabilityMinor);
  attribute(&multiprocessors, cudaDevAttrMultiProcessorCount);
  *traits = {10 * major + minor, multiprocessors};
  return status;
}

Status CurrentTraits(Traits* traits) {
  int ordinal = 0;
  Status status = FromCuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  if (!status.ok()) return status;
  const auto at = static_cast<size_t>(ordinal);
  if (at >= kept.size()) return Ask(ordinal, traits);
  *traits = kept[at].load(std::memory_order_relaxed);
  if (traits->capability != 0) return status;
  status = Ask(ordinal, traits);
  if (status.ok()) kept[at].store(*traits, std::memory_order_relaxed);
  return status;
}

}  // namespace

Status GetComputeCapability(int* capability) {
  Traits traits;
  const Status status = CurrentTraits(&traits);
  *capability = traits.capability;
  return status;
}

Status CountMultiprocessors(int* count) {
  Traits traits;
  const Status status = CurrentTraits(&traits);
  *count = traits.multiprocessors;
  return status;
}

}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0
//
// What every call of the operator on a CUDA device begins with: its arguments are checked, memory is
// laid out, and the device is looked at.

#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/paths.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/saved_header.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// Refuses what can be refused without a device, and lays out the passes.
Status CheckAndPlan(const Problem& problem, const Results& results, const Checks& checks,
                    const Keeping& keeping, Layout* layout);

// Takes a layout that keeps at most `bytes` of logits, as the field `limit` of the execution says.
template <class Regions>
Status TakeLayout(const std::optional<Regions>& made, const char* limit, size_t bytes,
                  Regions* regions) {
  if (!made) {
    return Status::Error(Code::kInvalidArgument, std::string("execution.") + limit + " = " +
                                                     std::to_string(bytes) +
                                                     " makes more than 2^62 bytes of memory");
  }
  *regions = *made;
  return Status::Ok();
}

// What a call needs to know of the device.
struct OnDevice {
  const Path* path = nullptr;
  int capability = 0;  // 10 major + minor
  int clusters = 0;    // of two multiprocessors each
};

// Looks at the current device, and takes the best path for it where `path` is null. kUnsupported below
// compute capability 7.5.
Status LookAtDevice(CudaPath asked, const Path* path, OnDevice* device);

// Returns the header of a state that is saved by this problem on this device.
SavedHeader HeaderOf(const Problem& problem, CudaPath asked, const OnDevice& device);

}  // namespace plumbline::kernel::cuda

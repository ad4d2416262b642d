// SPDX-License-Identifier: Apache-2.0
//
// Properties of the calling thread's current device. The CUDA runtime is asked once for each device of
// the process, whatever the number of threads, because the answers do not change during its life. Both
// functions return kFailed with CUDA's words where there is no device.

#pragma once

#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// 10 major + minor: 90 on Hopper.
Status GetComputeCapability(int* capability);
Status CountMultiprocessors(int* count);

}  // namespace plumbline::kernel::cuda

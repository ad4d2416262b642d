// SPDX-License-Identifier: Apache-2.0
//
// Properties of the calling thread's current device. The CUDA runtime is asked once for each device of
// the process, whatever the number of threads, because the answers do not change during its life. Both
// functions return kFailed with CUDA's words where there is no device.

#ifndef PLUMBLINE_KERNEL_CUDA_SUPPORT_DEVICE_H_
#define PLUMBLINE_KERNEL_CUDA_SUPPORT_DEVICE_H_

#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// 10 major + minor: 90 on Hopper.
Status GetComputeCapability(int* capability);
Status CountMultiprocessors(int* count);

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_SUPPORT_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
//
// The first CUDA device of this process (CUDA_VISIBLE_DEVICES says which that is), through the CUDA
// runtime and nowhere else in fuzz/. Its stream does not wait for the legacy default stream, so that
// work which a target puts there by mistake is not in order with the harness's.

#ifndef PLUMBLINE_FUZZ_TARGET_CUDA_DEVICE_H_
#define PLUMBLINE_FUZZ_TARGET_CUDA_DEVICE_H_

#include <string>

#include "fuzz/target/device.h"

namespace plumbline::fuzz {

// Made at the first call, for the life of the process. Null, with the reason: a build without CUDA, no
// driver, no device.
Device* CudaDevice(std::string* error);

// 10 major + minor of that device, which need not have been made; 0 where there is none.
int CudaCapability();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_CUDA_DEVICE_H_

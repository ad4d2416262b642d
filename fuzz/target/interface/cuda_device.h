// SPDX-License-Identifier: Apache-2.0
//
// The first CUDA device of this process (CUDA_VISIBLE_DEVICES says which one that is), used through the
// CUDA runtime. Its stream does not wait for the legacy default stream: work that a target puts there
// by mistake is therefore not ordered with the harness's.
#pragma once

#include <string>

#include "fuzz/target/interface/device.h"

namespace plumbline::fuzz {

// Returns the device, which is made at the first call and lives as long as the process. Null, with the
// reason, in a build without CUDA, and if there is no driver or no device.
Device* CudaDevice(std::string* error);

// The compute capability of that device as 10 major + minor; 0 if there is none. It does not make the
// device.
int CudaCapability();

}  // namespace plumbline::fuzz

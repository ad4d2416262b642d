// SPDX-License-Identifier: Apache-2.0
//
// Replaces cuda_device.cc in a build without the CUDA toolkit.

#include "fuzz/target/interface/cuda_device.h"

namespace plumbline::fuzz {

Device* CudaDevice(std::string* error) {
  *error = "this build has no CUDA implementation";
  return nullptr;
}

int CudaCapability() { return 0; }

}  // namespace plumbline::fuzz

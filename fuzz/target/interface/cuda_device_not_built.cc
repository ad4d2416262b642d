// SPDX-License-Identifier: Apache-2.0
//
// Replaces cuda_device.cc and cuda_heap.cc in a build without the CUDA toolkit.

#include "fuzz/target/interface/cuda_device.h"
#include "fuzz/target/interface/cuda_heap.h"

namespace plumbline::fuzz {

Device* CudaDevice(std::string* error) {
  *error = "this build has no CUDA implementation";
  return nullptr;
}

int CudaCapability() { return 0; }

std::unique_ptr<HeapMemory> CudaHeapMemory() { return nullptr; }

}  // namespace plumbline::fuzz

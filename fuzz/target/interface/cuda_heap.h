// SPDX-License-Identifier: Apache-2.0
//
// The memory of the first CUDA device for a DeviceHeap. What the heap does not place comes from
// cudaMallocAsync, which keeps freed memory for the next allocation.

#pragma once

#include <memory>

#include "fuzz/target/interface/device_heap.h"

namespace plumbline::fuzz {

// Null in a build without CUDA.
std::unique_ptr<HeapMemory> CudaHeapMemory();

}  // namespace plumbline::fuzz

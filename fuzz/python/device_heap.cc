// SPDX-License-Identifier: Apache-2.0
//
// The heap of this process (fuzz/target/interface/device_heap.h) as C functions: two that PyTorch calls
// as a pluggable allocator (torch.cuda.memory.CUDAPluggableAllocator), and three for a worker.

#include "fuzz/target/interface/device_heap.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "fuzz/target/interface/cuda_heap.h"

namespace plumbline::fuzz {
namespace {

constexpr size_t kBytes = size_t{1} << 30;

// Null in a build without CUDA. Lives as long as the process: PyTorch frees blocks at its very end.
DeviceHeap* Heap() {
  static DeviceHeap* const heap = [] {
    std::unique_ptr<HeapMemory> memory = CudaHeapMemory();
    return memory == nullptr ? nullptr : new DeviceHeap(std::move(memory), kBytes);
  }();
  return heap;
}

}  // namespace
}  // namespace plumbline::fuzz

#define PLUMBLINE_EXPORT extern "C" __attribute__((visibility("default")))

// Whether there is a heap: 1 or 0.
PLUMBLINE_EXPORT int plumbline_heap_is_built() { return plumbline::fuzz::Heap() != nullptr ? 1 : 0; }

// PyTorch's allocator. The device is the first one, the only one that a worker uses.
PLUMBLINE_EXPORT void* plumbline_heap_allocate(size_t bytes, int /*device*/, void* stream) {
  return plumbline::fuzz::Heap()->Allocate(bytes, stream);
}
PLUMBLINE_EXPORT void plumbline_heap_free(void* block, size_t /*bytes*/, int /*device*/, void* stream) {
  plumbline::fuzz::Heap()->Free(block, stream);
}

// Begins a run, whose blocks are filled with this byte.
PLUMBLINE_EXPORT void plumbline_heap_begin(int pattern) {
  plumbline::fuzz::Heap()->Begin(static_cast<unsigned char>(pattern));
}

// Ends it. Writes what it has damaged into `text`, at most `capacity` bytes with the 0 at the end, and
// returns the number of blocks, of all runs, that did not fit.
PLUMBLINE_EXPORT long long plumbline_heap_end(char* text, size_t capacity) {
  const std::string damage = plumbline::fuzz::Heap()->End();
  if (capacity > 0) {
    const size_t length = damage.copy(text, capacity - 1);
    text[length] = 0;
  }
  return plumbline::fuzz::Heap()->elsewhere();
}

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/cuda_heap.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plumbline::fuzz {
namespace {

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }

class CudaHeap final : public HeapMemory {
 public:
  std::byte* Reserve(size_t bytes) override {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) == cudaSuccess) return static_cast<std::byte*>(memory);
    static_cast<void>(cudaGetLastError());  // what does not fit is allocated elsewhere
    return nullptr;
  }

  std::byte* AllocateElsewhere(size_t bytes, void* stream) override {
    KeepFreed();
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, bytes, Stream(stream)) == cudaSuccess) {
      return static_cast<std::byte*>(memory);
    }
    static_cast<void>(cudaGetLastError());  // the framework says that there is no memory
    return nullptr;
  }

  void FreeElsewhere(std::byte* block, void* stream) override {
    static_cast<void>(cudaFreeAsync(block, Stream(stream)));
  }

  void Fill(std::byte* to, unsigned char value, size_t bytes, void* stream) override {
    static_cast<void>(cudaMemsetAsync(to, value, bytes, Stream(stream)));
  }

  bool Wait() override { return cudaDeviceSynchronize() == cudaSuccess; }

  bool Fetch(std::byte* to, const std::byte* from, size_t bytes) override {
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
  }

 private:
  // The device's pool gives freed memory back at the next synchronisation, unless it is told to keep
  // it.
  void KeepFreed() {
    if (kept_) return;
    kept_ = true;
    cudaMemPool_t pool = nullptr;
    uint64_t most = uint64_t{4} << 30;
    if (cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess) {
      static_cast<void>(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &most));
    }
  }

  bool kept_ = false;
};

}  // namespace

std::unique_ptr<HeapMemory> CudaHeapMemory() { return std::make_unique<CudaHeap>(); }

}  // namespace plumbline::fuzz

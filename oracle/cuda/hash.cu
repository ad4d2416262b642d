// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/cuda/launch.h"
#include "oracle/cuda/reduce.cuh"

namespace plumbline::oracle::cuda {
namespace {

constexpr int kThreads = 256;

// SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014).
__device__ __forceinline__ uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

template <class Word>
__global__ void HashKernel(const Word* data, int64_t rows, int64_t columns, int64_t stride0,
                           int64_t stride1, uint64_t* sum) {
  uint64_t mine = 0;
  const int64_t runs = (columns + kThreads - 1) / kThreads;
  for (int64_t k = blockIdx.x; k < rows * runs; k += gridDim.x) {
    const int64_t i = k / runs, j = k % runs * kThreads + threadIdx.x;
    if (j >= columns) continue;
    const auto place = static_cast<uint64_t>(i * columns + j);
    mine += Mix(Mix(place + 1) ^ data[i * stride0 + j * stride1]);
  }
  const uint64_t all = Reduce<kThreads>(mine, [](uint64_t a, uint64_t b) { return a + b; });
  // The sums are of integers, so the order of the additions changes nothing.
  if (threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(all));
  }
}

template <class Word>
void Launch(const void* data, int64_t rows, int64_t columns, int64_t stride0, int64_t stride1,
            uint64_t* sum) {
  HashKernel<<<kJudgeBlocks, kThreads>>>(static_cast<const Word*>(data), rows, columns, stride0,
                                         stride1, sum);
}

}  // namespace

void HashBits(const void* data, int bytes, int64_t rows, int64_t columns, int64_t stride0,
              int64_t stride1, uint64_t* sum) {
  if (rows == 0 || columns == 0) return;
  if (bytes == 2) return Launch<uint16_t>(data, rows, columns, stride0, stride1, sum);
  if (bytes == 4) return Launch<uint32_t>(data, rows, columns, stride0, stride1, sum);
  if (bytes == 8) return Launch<uint64_t>(data, rows, columns, stride0, stride1, sum);
  Launch<uint8_t>(data, rows, columns, stride0, stride1, sum);
}

}  // namespace plumbline::oracle::cuda

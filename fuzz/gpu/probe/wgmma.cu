// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

#include "fuzz/gpu/probe/cuda.cuh"
#include "fuzz/gpu/probe/device.h"

namespace plumbline::fuzz {
namespace {

// Operands lie as core matrices of 8 rows x 16 bytes, not swizzled. The core of rows 8 m and elements 8
// k is at (k * cores_of_rows + m) * 128 bytes. So the next core along the rows is 128 bytes further,
// along the depth cores_of_rows * 128.
__device__ unsigned long long Descriptor(const void* at, unsigned int depth_stride) {
  const auto address = static_cast<unsigned long long>(__cvta_generic_to_shared(at));
  return ((address & 0x3ffff) >> 4) | static_cast<unsigned long long>(depth_stride >> 4) << 16 |
         static_cast<unsigned long long>(128 >> 4) << 32;
}

template <bool kFp16>
__device__ void Wgmma(float* d, unsigned long long a, unsigned long long b, int keep) {
  if constexpr (kFp16) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, "
        "p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(keep));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, "
        "%9, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(keep));
  }
}

// A block handles four tiles: their 64 rows are one operand. All 64 rows are multiplied for each tile's
// 16 columns, and the warp that holds the tile's own rows keeps its results.
template <bool kFp16>
__global__ void __launch_bounds__(128)
    WgmmaKernel(int depth, const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ __align__(128) uint16_t left[64 * 16];
  __shared__ __align__(128) uint16_t right[16 * 16];
  const long long first = static_cast<long long>(blockIdx.x) * 4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int tile = 0; tile < 4; ++tile) {
    float c[8] = {};
    for (int k = 0; k < depth; k += 16) {
      const auto lay = [&](uint16_t* to, const uint16_t* from, int rows) {
        for (int i = threadIdx.x; i < rows * 16; i += 128) {
          const int row = i / 16, e = i % 16;
          to[(e / 8 * (rows / 8) + row / 8) * 64 + row % 8 * 8 + e % 8] =
              from[static_cast<long long>(row) * depth + k + e];
        }
      };
      lay(left, a + first * 16 * depth, 64);
      lay(right, b + (first + tile) * 16 * depth, 16);
      __syncthreads();
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      Wgmma<kFp16>(c, Descriptor(left, 8 * 128), Descriptor(right, 2 * 128), k > 0);
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      for (float& x : c) asm volatile("" : "+f"(x));  // keeps c from being read before the wait
      __syncthreads();
    }
    if (warp != tile) continue;
    for (int i = 0; i < 8; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = lane % 4 * 2 + i % 2 + i / 4 * 8;
      out[(first + tile) * 256 + row * 16 + column] = c[i];
    }
  }
}

}  // namespace

void WgmmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out) {
  const auto blocks = static_cast<unsigned int>(tiles / 4);
  TilesOnDevice("wgmma", tiles, depth, a, b, out,
                [&](const uint16_t* left, const uint16_t* right, float* products) {
                  (fp16 ? WgmmaKernel<true> : WgmmaKernel<false>)<<<blocks, 128>>>(depth, left, right,
                                                                                   products);
                });
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Stores a fragment's 16-bit elements in lines of 128 bytes. A lane holds two neighbouring elements of
// eight (fragment.cuh). Through 2 KiB of its warp's shared memory each lane gets eight neighbours of
// one row. Stores from registers, 4 bytes a lane, made d_logits take 1.15 times the time of cuBLAS's
// product (bench/NOTES.md).

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/product/fragment.cuh"

namespace plumbline::kernel::cuda {

// Shared memory of a warp for 16 rows of 64 elements, aligned to 128 bytes: an address in the shared
// window. A path that has none passes NoScratch.
inline constexpr int kWarpScratchBytes = 16 * 128;
struct WarpScratch {
  uint32_t address;
  uint32_t rows = 0;  // address of the epilogue's data of the fragment's rows (fragment.cuh)
};
struct NoScratch {};

// Two elements in a register, the first in its lower half.
template <class Element>
__device__ inline uint32_t PackPair(float a, float b);
template <>
__device__ inline uint32_t PackPair<__nv_bfloat16>(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ inline uint32_t PackPair<__half>(float a, float b) {
  const __half2 pair = __floats2half2_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Stores value(h, i) of every accumulator d[i], h = 0 for the upper rows and 1 for the lower, to row r
// of `to` for r < rows. All 32 lanes call. `to` is the fragment's first element; it and ld are
// multiples of 8 elements from a 16-byte aligned address. Without scratch every lane stores its own
// pairs.
template <class Element, int BN, class Scratch, class Value>
__device__ inline void StoreWide(Element* to, int64_t ld, int64_t rows, Scratch scratch,
                                 const Value& value) {
  static_assert(BN % 64 == 0);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (std::is_same_v<Scratch, NoScratch>) {
#pragma unroll
    for (int i = 0; i < BN / 2; i += 2) {
      const int h = i / 2 % 2, row = lane / 4 + 8 * h;
      const uint32_t pair = PackPair<Element>(value(h, i), value(h, i + 1));
      if (row < rows) *reinterpret_cast<uint32_t*>(to + row * ld + i / 4 * 8 + lane % 4 * 2) = pair;
    }
  } else {
    // The places of the 16-byte chunks are swizzled by the row, so that eight rows of one column of
    // chunks lie in different banks.
    const int written = lane % 16;
    const uint32_t row_written = scratch.address + static_cast<uint32_t>(written * 128);
#pragma unroll
    for (int first = 0; first < BN / 8; first += 8) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        uint32_t v[4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const int i = 4 * (first + j + m / 2) + 2 * (m % 2);
          v[m] = PackPair<Element>(value(m % 2, i), value(m % 2, i + 1));
        }
        const int chunk = (j + lane / 16) ^ (written % 8);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         row_written + static_cast<uint32_t>(chunk * 16)),
                     "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                     : "memory");
      }
      __syncwarp();
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int row = part * 4 + lane / 8, chunk = lane % 8;
        uint4 line;
        asm volatile(
            "ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(line.x), "=r"(line.y), "=r"(line.z), "=r"(line.w)
            : "r"(scratch.address + static_cast<uint32_t>(row * 128 + (chunk ^ (row % 8)) * 16))
            : "memory");
        if (row < rows) *reinterpret_cast<uint4*>(to + row * ld + 8 * (first + chunk)) = line;
      }
      __syncwarp();
    }
  }
}

// Stores eight rows of a fragment by 32 columns, with fewer registers than all of it at once takes: the
// lane's pairs (PackPair) of half `half` of 64 columns, to row r of `to` for r < rows. `to` is the
// first of these 64 columns, the `group`-th in the fragment. All 32 lanes call, for the first half
// before the second, and for groups in their order, none left out between two. Neighbouring groups have
// different parts of the scratch, so a group may be written while lanes still read the one before.
// Behind the last one the caller has to call __syncwarp. Where it is streaming, caches evict first what
// is stored.
template <bool streaming, class Element>
__device__ inline void StoreHalf(const uint32_t (&pairs)[4], int group, int half, Element* to,
                                 int64_t ld, int64_t rows, WarpScratch scratch) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  // The places of 16-byte chunks are swizzled by the row, as above.
  const auto place = [&](int row, int chunk) {
    return scratch.address +
           static_cast<uint32_t>(group % 2 * (kWarpScratchBytes / 2) + row * 128 + (chunk ^ row) * 16);
  };
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   place(lane % 8, half * 4 + lane / 8)),
               "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
               : "memory");
  if (half == 0) return;
  __syncwarp();
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int row = part * 4 + lane / 8;
    uint4 line;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(line.x), "=r"(line.y), "=r"(line.z), "=r"(line.w)
                 : "r"(place(row, lane % 8))
                 : "memory");
    if (row >= rows) continue;
    uint4* const at = reinterpret_cast<uint4*>(to + row * ld + lane % 8 * 8);
    if constexpr (streaming) {
      __stcs(at, line);
    } else {
      *at = line;
    }
  }
}
template <bool streaming, class Element>
__device__ inline void StoreHalf(const uint32_t (&pairs)[4], int, int half, Element* to, int64_t ld,
                                 int64_t rows, NoScratch) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (lane / 4 >= rows) continue;
    unsigned* const at =
        reinterpret_cast<unsigned*>(to + lane / 4 * ld + half * 32 + i * 8 + lane % 4 * 2);
    if constexpr (streaming) {
      __stcs(at, pairs[i]);
    } else {
      *at = pairs[i];
    }
  }
}

}  // namespace plumbline::kernel::cuda

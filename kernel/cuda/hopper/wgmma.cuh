// SPDX-License-Identifier: Apache-2.0
//
// Warpgroup matrix multiply-accumulate (PTX ISA, wgmma.mma_async): 64 x N += 64 x 16 times 16 x N, both
// operands in shared memory, fp32 accumulators. Warp w of the warpgroup holds rows 16 w to 16 w + 15 as
// kernel/cuda/product/fragment.cuh says.
//
// An operand of either major (tensor_map.h) lies in rows of 128 bytes with the 128-byte swizzle,
// aligned to 1024 bytes:
//   * K-major, [rows][64 k]: 1024 bytes between groups of 8 rows; a depth of 16 further is 32 bytes on
//   * MN-major, boxes of [64 k][64 mn]: 1024 bytes between groups of 8 k, one box (8192 bytes) between
//     groups of 64 mn; a depth of 16 further is 2048 bytes on

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/hopper/tensor_map.h"

namespace plumbline::kernel::cuda::hopper {

// PTX ISA, "Matrix descriptor format": address, leading and stride byte offsets in units of 16 bytes at
// bits 0, 16 and 32; 1 at bit 62 for the 128-byte swizzle. K-major ignores the leading offset.
template <Major major>
__device__ __forceinline__ uint64_t Descriptor(uint32_t address) {
  constexpr uint64_t kLeading = major == Major::kK ? 1 : 8192 / 16;
  constexpr uint64_t kStride = 1024 / 16;
  return (uint64_t{address & 0x3FFFF} >> 4) | kLeading << 16 | kStride << 32 | uint64_t{1} << 62;
}

// The difference of two descriptors that are a depth of 16 apart.
template <Major major>
inline constexpr uint64_t kDepthStep = major == Major::kK ? 32 / 16 : 2048 / 16;

__device__ __forceinline__ void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `pending` of the groups committed last are unfinished.
template <int pending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from moving its own uses of accumulators across this point. Without it, the
// compiler copies them and then serialises the products.
template <int count>
__device__ __forceinline__ void HoldAccumulators(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; i += 8) {
    asm volatile(""
                 : "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]),
                   "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])::"memory");
  }
}

// The text and the operands of N / 2 accumulators, spelled by tens and by eights, because inline
// assembly takes no arrays.
#define PLUMB_TEN(t) \
  "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define PLUMB_SIXTY \
  PLUMB_TEN("") PLUMB_TEN("1") PLUMB_TEN("2") PLUMB_TEN("3") PLUMB_TEN("4") PLUMB_TEN("5")
#define PLUMB_32 PLUMB_TEN("") PLUMB_TEN("1") PLUMB_TEN("2") "%30, %31"
#define PLUMB_64 PLUMB_SIXTY "%60, %61, %62, %63"
#define PLUMB_96 PLUMB_SIXTY PLUMB_TEN("6") PLUMB_TEN("7") PLUMB_TEN("8") "%90, %91, %92, %93, %94, %95"
#define PLUMB_EIGHT(i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define PLUMB_ACCUMULATORS_32 PLUMB_EIGHT(0), PLUMB_EIGHT(8), PLUMB_EIGHT(16), PLUMB_EIGHT(24)
#define PLUMB_ACCUMULATORS_64 \
  PLUMB_ACCUMULATORS_32, PLUMB_EIGHT(32), PLUMB_EIGHT(40), PLUMB_EIGHT(48), PLUMB_EIGHT(56)
#define PLUMB_ACCUMULATORS_96 \
  PLUMB_ACCUMULATORS_64, PLUMB_EIGHT(64), PLUMB_EIGHT(72), PLUMB_EIGHT(80), PLUMB_EIGHT(88)
// The numbers of the assembly's operands: a, b, accumulate, then the operands' majors, %`a` to %`tb`.
#define PLUMB_WGMMA(shape, type, count, a, b, accumulate_at, ta, tb)                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #accumulate_at                                  \
               ", 0;\nwgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" PLUMB_##count \
               "}, %" #a ", %" #b ", p, 1, 1, %" #ta ", %" #tb ";\n}\n"                             \
               : PLUMB_ACCUMULATORS_##count                                                         \
               : "l"(a_descriptor), "l"(b_descriptor), "r"(accumulate), "n"(int(a_major)),          \
                 "n"(int(b_major)))

// Computes d = A B, plus d where accumulate is not 0. It is asynchronous: WgmmaFence before,
// WgmmaCommit and WgmmaWait after.
template <class Element, Major a_major, Major b_major, int count>
__device__ __forceinline__ void Wgmma(float (&d)[count], uint64_t a_descriptor, uint64_t b_descriptor,
                                      int accumulate) {
  static_assert(count == 32 || count == 64 || count == 96, "N is 64, 128 or 192");
  constexpr bool kBfloat16 = std::is_same_v<Element, __nv_bfloat16>;
  static_assert(kBfloat16 || std::is_same_v<Element, __half>);
  if constexpr (count == 32 && kBfloat16) {
    PLUMB_WGMMA("m64n64k16", "bf16", 32, 32, 33, 34, 35, 36);
  } else if constexpr (count == 32) {
    PLUMB_WGMMA("m64n64k16", "f16", 32, 32, 33, 34, 35, 36);
  } else if constexpr (count == 64 && kBfloat16) {
    PLUMB_WGMMA("m64n128k16", "bf16", 64, 64, 65, 66, 67, 68);
  } else if constexpr (count == 64) {
    PLUMB_WGMMA("m64n128k16", "f16", 64, 64, 65, 66, 67, 68);
  } else if constexpr (kBfloat16) {
    PLUMB_WGMMA("m64n192k16", "bf16", 96, 96, 97, 98, 99, 100);
  } else {
    PLUMB_WGMMA("m64n192k16", "f16", 96, 96, 97, 98, 99, 100);
  }
}

#undef PLUMB_TEN
#undef PLUMB_SIXTY
#undef PLUMB_32
#undef PLUMB_64
#undef PLUMB_96
#undef PLUMB_EIGHT
#undef PLUMB_ACCUMULATORS_32
#undef PLUMB_ACCUMULATORS_64
#undef PLUMB_ACCUMULATORS_96
#undef PLUMB_WGMMA

}  // namespace plumbline::kernel::cuda::hopper

// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the portable path. sm_75 has all of them but two: an ordinary copy replaces
// cp.async there, and fused multiply-adds (Simt) replace mma.sync on bf16. The PTX manual, "Matrix
// Fragments for mma.m16n8k16 with floating point type", says what each lane holds.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace plumbline::kernel::cuda::portable {

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies the first `bytes` (0 to 16) of 16 bytes and fills up with zeros. `from` is 16-byte aligned
// and, where bytes is 0, need not be an address.
__device__ inline void CopyAsync(uint32_t to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  union {
    uint4 whole;
    uint16_t elements[8];
  } chunk = {{0, 0, 0, 0}};
  const auto* source = static_cast<const uint16_t*>(from);
  if (bytes == 16) {
    chunk.whole = *static_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (2 * i < bytes) chunk.elements[i] = source[i];
    }
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(chunk.whole.x),
               "r"(chunk.whole.y), "r"(chunk.whole.z), "r"(chunk.whole.w)
               : "memory");
#endif
}
__device__ inline void CommitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most `kPending` of this thread's groups are under way.
template <int kPending>
__device__ inline void WaitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Loads four 8x8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i.
template <bool kTransposed>
__device__ inline void LoadMatrices(uint32_t (&to)[4], uint32_t address) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// Multiply computes c += a b, 16 rows by 8 columns by 16 deep, in one of two arithmetics.

// mma.sync, compute capability 8.0: one block of the tensor core's arithmetic (two of 8 before 9.0).
template <class Element>
struct TensorCore;

template <>
struct TensorCore<__nv_bfloat16> {
  __device__ static void Multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <>
struct TensorCore<__half> {
  __device__ static void Multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// One chain of fused multiply-adds in ascending k, on any device. Operands stay in the layout of
// mma.sync and are passed from lane to lane: a row of a is in the four lanes of its group, a column of
// b in the four that begin at four times its number.
template <class Element>
struct Simt {
  __device__ static void Multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int row = lane / 4 * 4, column = lane % 4 * 2 * 4;
    // This loop is not unrolled: it is inlined 64 times, and a minute more of compiling gains little on
    // a slow path.
#pragma unroll 1
    for (int k = 0; k < 16; k += 2) {
      const int from = k % 8 / 2;
      const uint32_t b = k < 8 ? b0 : b1;
      const uint32_t above = __shfl_sync(kEveryLane, k < 8 ? a[0] : a[2], row + from);
      const uint32_t below = __shfl_sync(kEveryLane, k < 8 ? a[1] : a[3], row + from);
      const uint32_t left = __shfl_sync(kEveryLane, b, column + from);
      const uint32_t right = __shfl_sync(kEveryLane, b, column + 4 + from);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        c[0] = fmaf(Value(above, half), Value(left, half), c[0]);
        c[1] = fmaf(Value(above, half), Value(right, half), c[1]);
        c[2] = fmaf(Value(below, half), Value(left, half), c[2]);
        c[3] = fmaf(Value(below, half), Value(right, half), c[3]);
      }
    }
  }

 private:
  static constexpr unsigned kEveryLane = 0xffffffffu;

  __device__ static float Value(uint32_t pair, int half) {
    const auto bits = static_cast<unsigned short>(half == 0 ? pair & 0xffff : pair >> 16);
    if constexpr (std::is_same_v<Element, __half>) {
      return __half2float(__ushort_as_half(bits));
    } else {
      return __uint_as_float(static_cast<uint32_t>(bits) << 16);
    }
  }
};

}  // namespace plumbline::kernel::cuda::portable

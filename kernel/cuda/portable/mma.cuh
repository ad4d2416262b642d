// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the portable path, sm_80 and later: mma.sync, ldmatrix, cp.async. What each lane
// holds is in the PTX manual, "Matrix Fragments for mma.m16n8k16 with floating point type".

#ifndef PLUMBLINE_KERNEL_CUDA_PORTABLE_MMA_CUH_
#define PLUMBLINE_KERNEL_CUDA_PORTABLE_MMA_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace plumbline::kernel::cuda::portable {

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies the first `bytes` (0 to 16) of 16 bytes and fills up with zeros. `from` is 16-byte aligned
// and, where bytes is 0, need not be an address.
__device__ inline void CopyAsync(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kPending` of this thread's groups are under way.
template <int kPending>
__device__ inline void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i.
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

// c += a b, 16 rows by 8 columns by 16 deep: one block of the tensor core's arithmetic.
template <class Element>
__device__ void Multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ inline void Multiply<__nv_bfloat16>(float* c, const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void Multiply<__half>(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace plumbline::kernel::cuda::portable

#endif  // PLUMBLINE_KERNEL_CUDA_PORTABLE_MMA_CUH_

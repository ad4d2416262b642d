// SPDX-License-Identifier: Apache-2.0
//
// Computes d_logits of another chunk (Product::kept) during a gradient's product, on the warps of the
// issuing warpgroup that issue nothing. Logits arrive through a ring of copies in shared memory. These
// warps have few registers: with loads into registers a warp has too little in flight (bench/NOTES.md,
// 33).

#pragma once

#include <cstdint>

#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/wide_store.cuh"
#include "kernel/cuda/stages/kept_row.cuh"

namespace plumbline::kernel::cuda::hopper {

inline constexpr int kKeptWarps = 3;    // of a block
inline constexpr int kKeptPiece = 256;  // columns: twice 16 bytes a lane, which it alone reads
inline constexpr int kKeptPieces = 3;   // of the ring
inline constexpr int kKeptRingBytes = kKeptPieces * kKeptPiece * 4;  // of a warp

template <class Element>
struct KeptWarp {
  uint32_t ring;  // shared address of this lane's part of the first piece

  static constexpr uint32_t kHalf = kKeptPiece / 2;

  // Enqueues the copies of a piece, or an empty group of copies where there is none.
  __device__ __forceinline__ void Fetch(int slot, const float* from, bool exists) const {
    if (exists) {
      const uint32_t to = ring + slot * (kKeptPiece * 4);
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16;\n"
          "cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to),
          "l"(from), "n"(kHalf * 4)
          : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ __forceinline__ void Await(int slot, float (&z)[8]) const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kKeptPieces - 1) : "memory");
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(z[4 * half]), "=f"(z[4 * half + 1]), "=f"(z[4 * half + 2]),
                     "=f"(z[4 * half + 3])
                   : "r"(ring + slot * (kKeptPiece * 4) + half * (kHalf * 4))
                   : "memory");
    }
  }

  __device__ __forceinline__ void MakeRow(const KeptChunk& chunk, int64_t r) const {
    const int lane = int(threadIdx.x % 32);
    const KeptRow row(chunk, r);
    Element* const to = static_cast<Element*>(chunk.d_logits) + r * chunk.ld;
    const int pieces = row.logits != nullptr ? row.columns / kKeptPiece : 0;
    if (pieces > 0) {
      const float* from = row.logits + lane * 4;
#pragma unroll
      for (int p = 0; p < kKeptPieces; ++p) Fetch(p, from + p * kKeptPiece, p < pieces);
      from += kKeptPieces * kKeptPiece;
      Element* own = to + lane * 4;
      int slot = 0, label = row.label;  // from the piece's first column on
#pragma unroll 1
      for (int left = pieces; left > 0; --left) {
        float z[8];
        Await(slot, z);
#pragma unroll
        for (int i = 0; i < 8; ++i) z[i] = OtherGradient(row.gradient, z[i]);
        if (uint32_t(label) < kKeptPiece) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (lane * 4 + i % 4 + i / 4 * int(kHalf) == label) z[i] = row.gradient.label_gradient;
          }
        }
        *reinterpret_cast<uint2*>(own) = {PackPair<Element>(z[0], z[1]), PackPair<Element>(z[2], z[3])};
        *reinterpret_cast<uint2*>(own + kHalf) = {PackPair<Element>(z[4], z[5]),
                                                  PackPair<Element>(z[6], z[7])};
        Fetch(slot, from, left > kKeptPieces);  // after the slot's piece has been read
        from += kKeptPiece;
        own += kKeptPiece;
        label -= kKeptPiece;
        slot = slot == kKeptPieces - 1 ? 0 : slot + 1;
      }
    }
    row.template MakeFrom<false>(pieces * kKeptPiece, chunk, to, lane, 32);
  }

  // Computes the rows of warp `warp` of kKeptWarps.
  __device__ __forceinline__ void Run(const Product& product, int warp) const {
    if (product.kept.logits == nullptr) return;
    const int rows = int(KeptRows(product.kept));
    int row = int(kKeptWarps * blockIdx.x + warp) * product.kept_parts + product.kept_part, made = 0;
#pragma unroll 1
    while (row < rows) {
      MakeRow(product.kept, row);
      if (++made < product.kept_count) {
        ++row;
      } else {
        made = 0;
        row += int(kKeptWarps * gridDim.x) * product.kept_parts - product.kept_count + 1;
      }
    }
  }
};

}  // namespace plumbline::kernel::cuda::hopper

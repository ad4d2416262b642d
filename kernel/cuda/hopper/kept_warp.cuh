// SPDX-License-Identifier: Apache-2.0
//
// Computes d_logits of another chunk (Product::kept) during a gradient's product, on the warps of the
// issuing warpgroup that issue nothing. What forward kept arrives through a ring of copies in shared
// memory. These warps have few registers: with loads into registers a warp has too little in flight
// (bench/NOTES.md, 33).

#pragma once

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/wide_store.cuh"
#include "kernel/cuda/stages/kept_row.cuh"

namespace plumbline::kernel::cuda::hopper {

inline constexpr int kKeptWarps = 3;          // of a block
inline constexpr int kKeptPieceBytes = 1024;  // of a row: twice 16 a lane, which it alone reads
inline constexpr int kKeptPieces = 3;         // of the ring
inline constexpr int kKeptRingBytes = kKeptPieces * kKeptPieceBytes;  // of a warp

template <class Element>
struct KeptWarp {
  uint32_t ring;  // shared address of this lane's part of the first piece

  static constexpr int kHalfBytes = kKeptPieceBytes / 2;

  // Enqueues the copies of a piece, or an empty group of copies where there is none.
  template <class Kept>
  __device__ __forceinline__ void Fetch(int slot, const Kept* from, bool exists) const {
    if (exists) {
      const uint32_t to = ring + slot * kKeptPieceBytes;
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16;\n"
          "cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to),
          "l"(from), "n"(kHalfBytes)
          : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ __forceinline__ void Await() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kKeptPieces - 1) : "memory");
  }
  __device__ __forceinline__ void Read(int slot, int half, float* z) const {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(z[0]), "=f"(z[1]), "=f"(z[2]), "=f"(z[3])
                 : "r"(ring + slot * kKeptPieceBytes + half * kHalfBytes)
                 : "memory");
  }
  __device__ __forceinline__ uint4 Read(int slot, int half) const {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(ring + slot * kKeptPieceBytes + half * kHalfBytes)
                 : "memory");
    return words;
  }

  // Computes the whole pieces of a row from logits.
  __device__ __forceinline__ void MakePieces(const KeptRow<false>& row, int pieces, Element* to,
                                             int lane) const {
    constexpr int kPiece = kKeptPieceBytes / 4, kHalf = kPiece / 2;  // columns
    const float* from = row.kept + lane * 4;
#pragma unroll
    for (int p = 0; p < kKeptPieces; ++p) Fetch(p, from + p * kPiece, p < pieces);
    from += kKeptPieces * kPiece;
    Element* own = to + lane * 4;
    int slot = 0, label = row.label;  // from the piece's first column on
#pragma unroll 1
    for (int left = pieces; left > 0; --left) {
      float z[8];
      Await();
      Read(slot, 0, z);
      Read(slot, 1, z + 4);
#pragma unroll
      for (int i = 0; i < 8; ++i) z[i] = OtherGradient(row.gradient, z[i]);
      if (uint32_t(label) < kPiece) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (lane * 4 + i % 4 + i / 4 * kHalf == label) z[i] = row.gradient.label_gradient;
        }
      }
      *reinterpret_cast<uint2*>(own) = {PackPair<Element>(z[0], z[1]), PackPair<Element>(z[2], z[3])};
      *reinterpret_cast<uint2*>(own + kHalf) = {PackPair<Element>(z[4], z[5]),
                                                PackPair<Element>(z[6], z[7])};
      Fetch(slot, from, left > kKeptPieces);  // after the slot's piece has been read
      from += kPiece;
      own += kPiece;
      label -= kPiece;
      slot = slot == kKeptPieces - 1 ? 0 : slot + 1;
    }
  }

  // Computes them from exponents. The offset of a piece's half is loaded a piece ahead.
  __device__ __forceinline__ void MakePieces(const KeptRow<true>& row, int pieces, Element* to,
                                             int lane) const {
    constexpr int kPiece = kKeptPieceBytes / 2, kHalf = kPiece / 2;  // columns
    static_assert(kHalf == 32 * kKeptColumns);
    const int first = lane * kKeptColumns;
    const uint16_t* from = row.kept + first;
#pragma unroll
    for (int p = 0; p < kKeptPieces; ++p) Fetch(p, from + p * kPiece, p < pieces);
    from += kKeptPieces * kPiece;
    float offset[2] = {row.Offset(first), row.Offset(first + kHalf)};
    Element* own = to + first;
    int slot = 0, column = first;
#pragma unroll 1
    for (int left = pieces; left > 0; --left) {
      column += kPiece;  // of the next piece
      Await();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 exponents = Read(slot, half);
        const auto both = [&](uint32_t pair) {
          const float2 dz = KeptGradients(row.gradient, pair, offset[half]);
          return PackPair<Element>(dz.x, dz.y);
        };
        *reinterpret_cast<uint4*>(own + half * kHalf) = {both(exponents.x), both(exponents.y),
                                                         both(exponents.z), both(exponents.w)};
        if (left > 1) offset[half] = row.Offset(column + half * kHalf);
      }
      Fetch(slot, from, left > kKeptPieces);  // after the slot's piece has been read
      from += kPiece;
      own += kPiece;
      slot = slot == kKeptPieces - 1 ? 0 : slot + 1;
    }
    // The lane that has stored the label's column stores its own number over it.
    if (uint32_t(row.label) < uint32_t(pieces * kPiece) && row.label % kHalf / kKeptColumns == lane)
      to[row.label] = Narrow<Element>(row.gradient.label_gradient);
  }

  template <bool kExponents>
  __device__ __forceinline__ void MakeRow(const KeptChunk& chunk, int64_t r) const {
    const int lane = int(threadIdx.x % 32);
    const KeptRow<kExponents> row(chunk, r);
    Element* const to = static_cast<Element*>(chunk.d_logits) + r * chunk.ld;
    constexpr int kPiece = kKeptPieceBytes / int(sizeof(typename KeptRow<kExponents>::Kept));
    const int pieces = row.kept != nullptr ? row.columns / kPiece : 0;
    if (pieces > 0) MakePieces(row, pieces, to, lane);
    row.template MakeFrom<false>(pieces * kPiece, chunk.columns, to, lane, 32);
  }

  template <bool kExponents>
  __device__ __forceinline__ void MakeRows(const Product& product, int warp) const {
    const int rows = int(KeptRows(product.kept));
    int row = int(kKeptWarps * blockIdx.x + warp) * product.kept_parts + product.kept_part, made = 0;
#pragma unroll 1
    while (row < rows) {
      MakeRow<kExponents>(product.kept, row);
      if (++made < product.kept_count) {
        ++row;
      } else {
        made = 0;
        row += int(kKeptWarps * gridDim.x) * product.kept_parts - product.kept_count + 1;
      }
    }
  }

  // Computes the rows of warp `warp` of kKeptWarps.
  __device__ __forceinline__ void Run(const Product& product, int warp) const {
    if (product.kept.logits != nullptr) MakeRows<false>(product, warp);
    if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      if (product.kept.exponents != nullptr) MakeRows<true>(product, warp);
    }
  }
};

}  // namespace plumbline::kernel::cuda::hopper

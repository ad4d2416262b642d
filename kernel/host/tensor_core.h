// SPDX-License-Identifier: Apache-2.0
//
// Dot products with the arithmetic of Hopper's tensor cores (wgmma and mma, bf16 or fp16 to fp32), bit
// for bit, on the CPU. A result is a chain over blocks of 16 consecutive k through an fp32 accumulator
// c that starts from +0; the last block is padded with zeros. In one block:
//
//   * a product of two elements is exact and not normalised: exponent ea + eb, significand in
//     [1, 4), or below 1 where an element is subnormal (then its exponent is the format's least, -126
//     or -14);
//   * E = the largest exponent among the nonzero products and a nonzero c, but at least -133;
//   * the 16 products and c are each truncated toward zero to a multiple of 2^(E - 25), then added
//     exactly, and the sum is truncated toward zero to fp32: subnormals are kept, what does not fit is
//     an infinity, and what truncates to 0 is +0 whatever its sign;
//   * a NaN among the terms, infinity times 0, or infinities of both signs give the NaN 0x7fffffff;
//     else an infinity among the terms is the result.
//
// The model is that of Khattak and Mikaitis (arXiv 2512.07004) and of Microsoft's MMA-Sim (arXiv
// 2511.10909), which agree but for the least E; its method is that of Fasi, Higham, Mikaitis and
// Pranesh (PeerJ CS 7:e330, 2021). The least E and the sign of zero are measured: an H200's wgmma, its
// mma.sync and cuBLAS gave these bits on 300 288 dot products of bf16 and fp16 in 14 kinds of data
// (driver 580.159.04, 2026-11-21). MMA-Sim counts zero terms as 2^-126 and is wrong on 12 585 of them.
// `plumb doctor --probe` measures again; tests/kernel/tensor_core_test.cc holds some of the results.
//
// fp32 operands are split into three bf16 planes, each rounded to nearest, ties to even:
//   hi = bf16(x),  mid = bf16(x - hi),  lo = bf16(x - hi - mid)
// (hi saturates instead of becoming infinite), and six products of planes, the small ones first, go
// through the same accumulator, one pass over the depth each:
//   (lo, hi), (mid, mid), (hi, lo), (mid, hi), (hi, mid), (hi, hi)
// An operand that is infinite or NaN has no planes: it is 0 in every pass, and the last one adds its
// products as fp32 computes them. With planes, infinity times a finite number would be NaN where the
// number's planes differ in sign or one is zero.

#pragma once

#include <cstdint>

#include "kernel/dtype.h"
#include "kernel/host/simd.h"

namespace plumbline::kernel::host {

inline constexpr int64_t kTensorCoreBlock = 16;  // products that are aligned together

// Returns the passes over the depth that operands of this dtype take: 6 for fp32, else 1.
int TensorCorePasses(DType operands);

// Computes one pass of c[r][j] += sum over k of a[r][k] b[k][j]. The operands are widened values of the
// dtype named, the same for both; pass is in [0, TensorCorePasses). A depth may be split over several
// calls after any multiple of 16. Every instruction set gives the same bits.
void TensorCoreProducts(const DotBlock& block, DType operands, int pass);

}  // namespace plumbline::kernel::host

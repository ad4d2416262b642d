// SPDX-License-Identifier: Apache-2.0
//
// The loops that take the time, for whatever vector width the CPU has: blocks of dot products, runs of
// exponentials, and the maximum and the sums of a tile. Every instruction set gives the same bits: each
// element is computed by its own chain of correctly rounded operations, vector lanes are different
// elements, and std::fma replaces a fused multiply-add that the hardware lacks.
//
// Highway picks the instruction set at run time; CompiledTargets() says which ones there are.

#pragma once

#include <cstdint>

#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {

// c[r][j] = chain over k = 0 .. depth-1, ascending, of fma(a[r][k], b[k][j], .), which starts from
// c[r][j] where `accumulate`, else from +0. Splitting the depth over several calls changes no bit.
struct DotBlock {
  const float* a;  // [rows][depth], a_stride floats from row to row
  int64_t a_stride;
  const float* b;  // [panels][depth][kPanel], 64-byte aligned
  int64_t depth;
  int64_t rows;
  int64_t panels;
  float* c;  // [rows][panels * kPanel], c_stride floats from row to row
  int64_t c_stride;
  bool accumulate;
};
void DotProducts(const DotBlock& block);

// Computes t = (m - z) / T, each operation rounded once (T = 1 divides exactly), and e = exp(-t), for
// count logits; count is a multiple of 16. A logit of -inf has t = +inf and e = 0 even where m is -inf
// as well.
//
// Error of e for the t given: at most 2 * 2^-24 relative for t in [0, 87], and 2 * 2^-24 relative plus
// 2^-150 beyond, where results become subnormal gradually and then 0; e(0) is exactly 1; a NaN stays
// one. m must be at least every z that is not NaN, so t >= 0.
void Exponentials(const float* z, float m, float temperature, int64_t count, float* t, float* e);

// Returns the largest of kTile logits; NaN if any is.
float TileMaximum(const float* z);

// Sums over kTile logits, with t and e as above: s is the sum of e, q the sum of the rounded products e
// t, read as 0 where e = 0. Lane j of kLanes adds columns j, j + 16, j + 32, j + 48 in this order; then
// lanes j and j + 8, j + 4, j + 2, j + 1 are added: depth 7.
struct TileSums {
  float s, q;
};
TileSums SumTile(const float* z, float m, float temperature);

// Returns the instruction sets that this library holds code for, as a mask of Highway's HWY_* bits.
int64_t CompiledTargets();

}  // namespace plumbline::kernel::host

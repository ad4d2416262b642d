// SPDX-License-Identifier: Apache-2.0
//
// Blocks of fp64 dot products for whatever vector width the CPU has. Each element is one chain in
// ascending order of k, fused where the hardware can, so its error is at most gamma_K sum |a b| in
// either case. Vector lanes are different elements.

#pragma once

#include <cstdint>

namespace plumbline::oracle {

constexpr int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

inline constexpr int64_t kPanel = 24;  // columns of a packed panel: three vectors of AVX-512

// c[r][panel * kPanel + j] = sum over k of a(r, k) b[panel][k][j]. The sum starts from c where
// `accumulate`, else from +0.
struct GemmBlock {
  const double* a;
  int64_t a_row, a_depth;  // a(r, k) lies at a + r * a_row + k * a_depth; one of the two is 1
  const double* b;         // [panels][depth][kPanel]
  int64_t rows, depth, panels;
  double* c;
  int64_t c_stride;
  bool accumulate;
};
void Gemm(const GemmBlock& block);

// Measures the fused multiply-adds a second, in all lanes, that one core of this machine can do, which
// is what Gemm is compared with. Runs for about `seconds`.
double MeasureFmaRate(double seconds);

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0
//
// Packs matrices as Gemm reads them: panels of kPanel columns, widened exactly to fp64, with their
// magnitudes beside them. The oracle decodes inputs with its own code, so that a kernel's mistake in
// decoding cannot hide.

#pragma once

#include <cstdint>

#include "kernel/problem.h"

namespace plumbline::oracle {

// Element (i, j) of a float matrix lies at data + (i * stride[0] + j * stride[1]) * SizeOf(dtype).
struct Matrix {
  const void* data;
  kernel::DType dtype;
  int64_t stride[2];

  static Matrix Of(const kernel::ConstTensor& t) {
    return {t.data, t.dtype, {t.stride[0], t.stride[1]}};
  }
  Matrix Transposed() const { return {data, dtype, {stride[1], stride[0]}}; }
};

// Both functions raise a nonzero magnitude below `least` to it (ERROR-BUDGET.md, "Dot products").
//
// Packs elements [depth_begin, depth_begin + depth) x [column_begin, column_begin + columns), columns
// <= kPanel, to value[depth][kPanel] and magnitude[depth][kPanel], both aligned to a cache line. The
// columns from `columns` to kPanel are 0.
void PackPanel(const Matrix& source, int64_t depth_begin, int64_t depth, int64_t column_begin,
               int64_t columns, double least, double* value, double* magnitude);

// Widens elements [0, columns) of row i of a matrix to value and, where not null, magnitude.
void LoadRow(const Matrix& source, int64_t i, int64_t columns, double least, double* value,
             double* magnitude);

// least[j] = min(least[j], the lowest set bit of every finite nonzero value[k][j]), a power of two.
void UpdateLowestBits(const double* value, int64_t depth, double* least);

// largest[j] = max(largest[j], magnitude[k][j] where it is finite).
void UpdateMaxima(const double* magnitude, int64_t depth, double* largest);

// The value of the lowest set bit of a finite x != 0; infinity for 0 and for what is not finite.
double LowestBit(double x);

}  // namespace plumbline::oracle

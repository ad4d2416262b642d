// SPDX-License-Identifier: Apache-2.0
//
// Converts between tensors as the caller stores them and fp32 blocks as the micro-kernel reads them.
// Widening is exact; narrowing rounds once, to nearest, ties to even. Every NaN is stored as the one
// quiet NaN whose fraction is its top bit, because the payload that arithmetic propagates differs
// between instruction sets.

#pragma once

#include <cstdint>

#include "kernel/dtype.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// A float matrix whose element (i, j) lies at data + i * stride[0] + j * stride[1].
struct Matrix {
  const void* data;
  DType dtype;
  int64_t stride[2];

  static Matrix Of(const ConstTensor& t) { return {t.data, t.dtype, {t.stride[0], t.stride[1]}}; }
  Matrix Transposed() const { return {data, dtype, {stride[1], stride[0]}}; }
};

// Widens rows rows[0] .. rows[count-1] of source, all of their `columns` columns, to
// out[count][columns].
void WidenRows(const Matrix& source, const int64_t* rows, int64_t count, int64_t columns, float* out);

// Packs rows [depth_begin, depth_begin + depth) and columns [column_begin, column_begin + columns) of
// source into panels out[ceil(columns / kPanel)][depth][kPanel]; columns past the last are +0. Where
// `rows` is given, depth step k reads row rows[depth_begin + k].
void PackPanels(const Matrix& source, const int64_t* rows, int64_t depth_begin, int64_t depth,
                int64_t column_begin, int64_t columns, float* out);

// Transposes: to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < columns.
void Transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride);

// Stores values[r * stride + c] to elements (row_begin + r, column_begin + c) of a rank 2 output.
void StoreBlock(const Tensor& output, int64_t row_begin, int64_t rows, int64_t column_begin,
                int64_t columns, const float* values, int64_t stride);

// Stores one value to every element of a row.
void FillRow(const Tensor& output, int64_t row, float value);

// Stores one value to element i of a rank 1 fp32 output, or to a scalar.
void StoreElement(const Tensor& output, int64_t i, float value);

}  // namespace plumbline::kernel::host

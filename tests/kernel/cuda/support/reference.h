// SPDX-License-Identifier: Apache-2.0
//
// Device values for problems too large for the host, and their logits in fp64 by the plainest of
// kernels, with which an overflowing index is found. It shares nothing with the operator.

#pragma once

#include <cstdint>

namespace plumbline::kernel::device {

// data[i * stride + j] for i < rows, j < columns: small integers in [-2, 2] times 2^exponent as bf16,
// drawn by (seed, i, j).
void FillBf16(void* data, int64_t rows, int64_t columns, int64_t stride, uint64_t seed, int exponent);

// z[v] = the logit of one row of hidden and every row of weight, bf16, exact up to fp64's rounding.
void RowLogits(const void* hidden_row, const void* weight, int64_t vocab, int64_t depth,
               int64_t weight_stride, double* z);

// Sets *differ to 1 if two ranges of device memory differ. Enqueued on `stream`.
void Compare(const void* a, const void* b, int64_t bytes, int* differ, void* stream);

// Keeps the device's arithmetic and memory busy for a while; enqueued on `stream`. floats: [count].
void Load(float* floats, int64_t count, void* stream);

}  // namespace plumbline::kernel::device

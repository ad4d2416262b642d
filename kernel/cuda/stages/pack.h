// SPDX-License-Identifier: Apache-2.0
//
// Copies operands into the form that products read (kernel/cuda/product/product.h): packs the rows that
// take part together, copies a weight that is hidden-major or not aligned a chunk at a time, and splits
// fp32 into planes. A copy is exact, so results do not depend on whether there was one.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/product/product.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// Returns whether a product can read the matrix where it lies: 16-bit elements, rows contiguous,
// 16-byte aligned and a multiple of 16 bytes apart.
bool IsPacked(const ConstTensor& matrix);

// Returns the operand over rows [first, first + rows) of a matrix that IsPacked.
Operand OperandOf(const ConstTensor& matrix, int64_t first, int64_t rows);

struct PackRequest {
  ConstTensor from;                  // [rows, columns], any strides
  int64_t first = 0;                 // the first row wanted, or the first entry of the list
  int64_t rows = 0;                  // how many, at most
  const int32_t* list = nullptr;     // device: rows of `from`; null: rows as they come
  const int32_t* live = nullptr;     // device: entries on the list; null: no bound
  const int32_t* only_if = nullptr;  // device: nothing is done where this is 0; null: always
  void* to = nullptr;                // [planes][allocated_rows][ld] of 16-bit elements
  int64_t allocated_rows = 0;
  int64_t ld = 0;  // a multiple of 8, at least columns; the rest of a row is filled with 0
};

// Returns the planes of an operand of this dtype: kPlanes for fp32, else 1.
int PlanesOf(DType dtype);

// Enqueues the copy. It fills the rows past the last live one with 0, up to a multiple of 64 rows.
Status Pack(const PackRequest& request, cudaStream_t stream);

// Returns the operand over what Pack writes.
Operand PackedOperand(const PackRequest& request);

}  // namespace plumbline::kernel::cuda

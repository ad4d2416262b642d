// SPDX-License-Identifier: Apache-2.0
//
// Makes the operands hidden and weight of a pass's products: where they lie, or packed.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/product/product.h"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/cuda/stages/pack.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda {

// Hidden over the entries [first, first + rows) of a list. Where every row is on the list, a product
// reads `itself`, the tensor where it lies; else it reads `moved`, the listed rows packed together. A
// tensor that cannot be read where it lies is always packed, and `itself` is the copy.
struct HiddenOperand {
  Operand itself, moved;
  const int32_t* use_moved = nullptr;  // null: never; then `itself` is all there is
};

inline Status MakeHidden(const ConstTensor& hidden, const Census* census, const int32_t* source,
                         int64_t first, int64_t rows, int64_t allocated_rows, int64_t ld, void* memory,
                         cudaStream_t stream, HiddenOperand* operand) {
  const bool direct = IsPacked(hidden);
  const PackRequest request = {.from = hidden,
                               .first = first,
                               .rows = rows,
                               .list = source,
                               .live = &census->live,
                               .only_if = direct ? &census->compacted : nullptr,
                               .to = memory,
                               .allocated_rows = allocated_rows,
                               .ld = ld};
  Status status = Pack(request, stream);
  if (!status.ok()) return status;
  *operand = {};
  operand->itself = direct ? OperandOf(hidden, first, rows) : PackedOperand(request);
  if (direct) {
    operand->moved = PackedOperand(request);
    operand->use_moved = &census->compacted;
  }
  return Status::Ok();
}

// Makes the operand of columns [first, first + count) of the vocabulary.
inline Status MakeWeight(const ConstTensor& weight, int64_t first, int64_t count,
                         int64_t allocated_columns, int64_t ld, void* memory, cudaStream_t stream,
                         Operand* operand) {
  if (IsPacked(weight)) {
    *operand = OperandOf(weight, first, count);
    return Status::Ok();
  }
  const PackRequest request = {.from = weight,
                               .first = first,
                               .rows = count,
                               .to = memory,
                               .allocated_rows = allocated_columns,
                               .ld = ld};
  *operand = PackedOperand(request);
  return Pack(request, stream);
}

}  // namespace plumbline::kernel::cuda

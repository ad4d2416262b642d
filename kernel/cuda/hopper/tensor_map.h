// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of matrices for the tensor memory accelerator: {inner, rows, planes} of 16-bit elements,
// read in boxes of {64, box_rows, 1}. A box lies in shared memory in rows of 128 bytes, whose 16-byte
// chunks are permuted by the 128-byte swizzle that wgmma expects. The host makes the maps and passes
// them to a kernel by value.

#pragma once

#include <cstdint>

#include "kernel/cuda/product/product.h"
#include "kernel/status.h"

namespace plumbline::kernel::cuda::hopper {

// The dimension along which an operand is contiguous: the depth (kK), or the rows of the result for A
// and its columns for B (kMN).
enum class Major : int { kK = 0, kMN = 1 };

struct alignas(64) TensorMap {  // CUtensorMap, without its header
  uint64_t words[16];
};

inline constexpr int kBoxInner = 64;  // elements: the 128 bytes of the swizzle

struct Maps {  // those of operands without elements are never used
  TensorMap a, b, a_alternative, b_alternative;
};

// Makes the maps of a product whose operands are fetched in boxes of that many rows, 1 to 256. Extents
// end where m, n and k do. Returns kFailed where the driver refuses. Returns kUnsupported, naming
// operand and value, where the accelerator cannot address an operand: more than 2^31 - 1024 rows or
// columns, a base that is no multiple of 16 bytes, a stride that is none or is 2^40 bytes or more.
Status MakeMaps(const Product& product, Major a, Major b, int a_box_rows, int b_box_rows, Maps* maps);

}  // namespace plumbline::kernel::cuda::hopper

// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of Hopper's tensor cores, one dot product at a time, in integers only and straight
// from its definition (kernel/host/tensor_core.h states it and names the sources). It shares no code
// with the vectorised model, and decodes encodings by itself.

#pragma once

#include <cstdint>

#include "kernel/dtype.h"

namespace plumbline::kernel {

// One block: returns the fp32 pattern of c + sum of a[k] b[k] for at most 16 k. Elements are fp32
// numbers that the format (bf16 or fp16) holds.
uint32_t TensorCoreBlockByDefinition(DType format, const float* a, const float* b, int64_t count,
                                     uint32_t c);

// Returns the chain over blocks from +0; for fp32 operands, the six passes over three planes.
uint32_t TensorCoreByDefinition(DType dtype, const float* a, const float* b, int64_t depth);

}  // namespace plumbline::kernel

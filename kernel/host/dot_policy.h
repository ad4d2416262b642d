// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the operator's three matrix products, and of what a device keeps between them, as a
// compile-time choice that is orthogonal to the hooks: every policy of kernel/host/hooks.h names one of
// these types as its `Dots`.
//
//   kStretches                 whether grad_hidden is summed in stretches (kernel/stretches.h)
//   Passes(dtype)              over the depth of a product of operands of this dtype
//   Products(block, dtype, p)  pass p of a block of dot products
//   Store(d_logits, n, dtype)  rounds d_logits to what the second and third product read
//   KeepsExponents(dtype)      whether backward's exponents go through fp16 (KeptExponents of
//   d_logits.h)

#pragma once

#include <cstdint>

#include "kernel/dtype.h"
#include "kernel/host/simd.h"
#include "kernel/host/tensor_core.h"

namespace plumbline::kernel::host {

// The arithmetic of the operator: one chain of fused multiply-adds in fp32 for each element, d_logits
// in fp32.
struct FusedChains {
  static constexpr bool kStretches = false;
  static constexpr int Passes(DType) { return 1; }
  static bool KeepsExponents(DType) { return false; }
  static void Products(const DotBlock& block, DType, int) { DotProducts(block); }
  static void Store(float*, int64_t, DType) {}
};

// The arithmetic of Hopper's tensor cores (kernel/host/tensor_core.h), d_logits in the dtype of the
// inputs. grad_hidden is one chain over each stretch; for fp32 inputs the six passes go over one chunk
// of the vocabulary after another.
struct TensorCores {
  static constexpr bool kStretches = true;
  static bool KeepsExponents(DType dtype) { return dtype == DType::kBf16; }
  static int Passes(DType dtype) { return TensorCorePasses(dtype); }
  static void Products(const DotBlock& block, DType dtype, int pass) {
    TensorCoreProducts(block, dtype, pass);
  }
  static void Store(float* d_logits, int64_t count, DType dtype) {
    if (dtype == DType::kF32) return;
    for (int64_t j = 0; j < count; ++j) {
      d_logits[j] =
          dtype == DType::kBf16 ? ToFloat(ToBFloat16(d_logits[j])) : ToFloat(ToFloat16(d_logits[j]));
    }
  }
};

}  // namespace plumbline::kernel::host

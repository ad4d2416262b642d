// SPDX-License-Identifier: Apache-2.0
//
// The operator's inputs (Problem) and outputs (Results). Both are views: they own no memory, and the
// tensors that they name must outlive every call that uses them.
//
// The mathematics, the special rows and the promises are specified in kernel/OPERATION.md.

#pragma once

#include <cstdint>
#include <optional>

#include "kernel/dtype.h"

namespace plumbline::kernel {

// A strided view of rank 0, 1 or 2. Strides count elements. They may be zero (a broadcast) or negative
// and need not describe contiguous memory; element (i, j) lies at data + (i*stride[0] + j*stride[1]) *
// SizeOf(dtype). Entries of shape and stride at or beyond rank are ignored.
template <class Void>
struct BasicTensor {
  Void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  int64_t shape[2] = {1, 1};
  int64_t stride[2] = {1, 1};

  // Number of elements that the view addresses, a broadcast element counted as often as it is seen.
  int64_t size() const { return (rank > 0 ? shape[0] : 1) * (rank > 1 ? shape[1] : 1); }
};

using ConstTensor = BasicTensor<const void>;
using Tensor = BasicTensor<void>;

inline ConstTensor AsConst(const Tensor& t) {
  return {t.data, t.dtype, t.rank, {t.shape[0], t.shape[1]}, {t.stride[0], t.stride[1]}};
}

enum class Reduction : uint8_t { kNone, kSum, kMean };

// The inputs: N rows (tokens), H hidden size, V vocabulary size. Any of them may be 0; none needs to be
// a multiple of anything.
struct Problem {
  ConstTensor hidden;  // [N, H] bf16, fp16 or fp32; the last dimension contiguous
  ConstTensor weight;  // [V, H], dtype of hidden; strides {ld, 1} vocab-major, {1, ld} hidden-major
  ConstTensor labels;  // [N] int32 or int64, naturally aligned
  // [] or [N] fp32, finite and > 0; absent means 1. Logits are divided by it. Receives no gradient.
  std::optional<ConstTensor> temperature;
  int64_t ignore_index = -100;  // a row with this label contributes nothing, whatever it holds
  Reduction reduction = Reduction::kNone;
  // Upstream gradients, fp32, any stride; absent means 0.
  // grad_logprob: reduction none: [N], d objective / d logprob; sum or mean: [], d objective / d loss.
  std::optional<ConstTensor> grad_logprob;
  std::optional<ConstTensor> grad_entropy;  // [N], d objective / d entropy

  int64_t rows() const { return hidden.shape[0]; }
  int64_t hidden_size() const { return hidden.shape[1]; }
  int64_t vocab() const { return weight.shape[0]; }
};

// The outputs; an absent one is not computed. Everything present is overwritten in full.
struct Results {
  std::optional<Tensor> logprob;  // [N] fp32, reduction none only
  std::optional<Tensor> loss;     // [] fp32, reduction sum or mean only: the negated reduced logprob
  std::optional<Tensor> entropy;  // [N] fp32
  std::optional<Tensor> lse;      // [N] fp32
  std::optional<Tensor> grad_hidden;        // [N, H], dtype of hidden, or fp32
  std::optional<Tensor> grad_weight;        // [V, H], dtype of weight, or fp32; layout rules of weight
  std::optional<Tensor> first_invalid_row;  // [] int64; -1 where every row is valid
};

}  // namespace plumbline::kernel

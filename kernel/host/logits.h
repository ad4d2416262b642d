// SPDX-License-Identifier: Apache-2.0
//
// Computes one tile of logits for a block of rows: z = hidden . weight^T, by the policy's dot products
// in ascending order of the hidden dimension, from +0. Forward and backward both call it, so backward
// has the very bits that forward summed.

#ifndef PLUMBLINE_KERNEL_HOST_LOGITS_H_
#define PLUMBLINE_KERNEL_HOST_LOGITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/defects.h"
#include "kernel/host/planted.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// What a defect makes of logits before they meet the softmax.
template <class Defects>
void AlterLogits(float* row, int64_t width, const Defects& defects) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float* const end = row + width;
  if (defects.Has(Defect::kLogitsRounded)) std::transform(row, end, row, planted::ThroughBFloat16);
  if (defects.Has(Defect::kLogitsFp16)) {
    std::transform(row, end, row, [](float z) { return ToFloat(ToFloat16(z)); });
  }
  if (defects.Has(Defect::kNaNDropped)) {
    std::replace_if(
        row, end, [](float z) { return z != z; }, -kInfinity);
  }
  if (defects.Has(Defect::kInfinityClamped)) {
    std::replace(row, end, kInfinity, std::numeric_limits<float>::max());
  }
}

// The matrix of weight, as it lies in memory.
template <class Defects>
Matrix WeightOf(const Problem& problem, const Defects& defects) {
  Matrix weight = Matrix::Of(problem.weight);
  if (defects.Has(Defect::kWeightStrideAssumed)) {
    const bool by_vocab = weight.stride[1] == 1;
    weight.stride[by_vocab ? 0 : 1] = by_vocab ? problem.hidden_size() : problem.vocab();
  }
  return weight;
}

// Computes z of one tile from scratch.rows, which holds the rows, widened, plan.h floats each. z has
// kTile floats a row, z_stride apart. Columns past the vocabulary become -inf, which the softmax counts
// as no column.
template <class Defects>
void TileLogits(const Plan& plan, const Matrix& weight, const Scratch& scratch, int64_t rows,
                int64_t tile, float* z, int64_t z_stride, const Defects& defects) {
  using Dots = typename Defects::Dots;
  const int64_t width = plan.tiling.Width(tile);
  const bool drop_tail = defects.Has(Defect::kHiddenTailDropped) && plan.h > 16;
  const int64_t h = drop_tail ? plan.h / 16 * 16 : plan.h;
  if (defects.Has(Defect::kInputsRounded) && weight.dtype == DType::kF32) {
    std::transform(scratch.rows, scratch.rows + rows * plan.h, scratch.rows, planted::ToTf32);
  }
  for (int pass = 0; pass < Dots::Passes(weight.dtype); ++pass) {
    for (int64_t k = 0; k < h; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, h - k);
      PackPanels(weight.Transposed(), nullptr, k, depth, tile * kTile, width, scratch.panels);
      Dots::Products({scratch.rows + k, plan.h, scratch.panels, depth, rows, CeilDiv(width, kPanel), z,
                      z_stride, pass > 0 || k > 0},
                     weight.dtype, pass);
    }
  }
  float padding = -std::numeric_limits<float>::infinity();
  if (defects.Has(Defect::kTailUnmasked)) padding = 0;
  if (defects.Has(Defect::kTailSentinel)) padding = -1e4F;
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = z + r * z_stride;
    if (h == 0) std::fill_n(row, width, 0.0f);
    AlterLogits(row, width, defects);
    if (defects.Has(Defect::kTailDropped) && tile > 0 && width < kTile) {
      std::fill_n(row, width, padding);
    }
    std::fill(row + width, row + kTile, padding);
  }
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_LOGITS_H_

// SPDX-License-Identifier: Apache-2.0
//
// One tile of logits for a block of rows: z = hidden . weight^T, by the policy's dot products in
// ascending order of the hidden dimension, from +0. Forward and backward both come here, so backward
// sees the very bits that forward summed.

#ifndef PLUMBLINE_KERNEL_HOST_LOGITS_H_
#define PLUMBLINE_KERNEL_HOST_LOGITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/defects.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"

namespace plumbline::kernel::host {

// scratch.rows holds the rows, widened, plan.h floats each. z has kTile floats a row, z_stride apart;
// columns past the vocabulary become -inf, which the softmax reads as no column at all.
template <class Defects>
void TileLogits(const Plan& plan, const Matrix& weight, const Scratch& scratch, int64_t rows,
                int64_t tile, float* z, int64_t z_stride, const Defects& defects) {
  using Dots = typename Defects::Dots;
  const int64_t width = plan.tiling.Width(tile);
  for (int pass = 0; pass < Dots::Passes(weight.dtype); ++pass) {
    for (int64_t k = 0; k < plan.h; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, plan.h - k);
      PackPanels(weight.Transposed(), nullptr, k, depth, tile * kTile, width, scratch.panels);
      Dots::Products({scratch.rows + k, plan.h, scratch.panels, depth, rows, CeilDiv(width, kPanel), z,
                      z_stride, pass > 0 || k > 0},
                     weight.dtype, pass);
    }
  }
  const bool tail_unmasked = defects.Has(Defect::kTailUnmasked);
  const float padding = tail_unmasked ? 0 : -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = z + r * z_stride;
    if (plan.h == 0) std::fill_n(row, width, 0.0f);
    if (defects.Has(Defect::kLogitsRounded)) {
      for (int64_t j = 0; j < width; ++j) row[j] = ToFloat(ToBFloat16(row[j]));
    }
    std::fill(row + width, row + kTile, padding);
  }
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_LOGITS_H_

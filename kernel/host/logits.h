// SPDX-License-Identifier: Apache-2.0
//
// Computes one tile of logits for a block of rows: z = hidden . weight^T, by the policy's dot products
// in ascending order of the hidden dimension, from +0. Forward and backward both call it, so backward
// has the very bits that forward summed.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/hooks.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"

namespace plumbline::kernel::host {

// Computes z of one tile from the first h columns of scratch.rows, which holds the rows, widened,
// plan.h floats each. z has kTile floats a row, z_stride apart. Columns past the vocabulary become
// -inf, which the softmax counts as no column.
template <class Dots>
void MultiplyTile(const Plan& plan, const Matrix& weight, const Scratch& scratch, int64_t rows,
                  int64_t h, int64_t tile, float* z, int64_t z_stride) {
  const int64_t width = plan.tiling.Width(tile);
  for (int pass = 0; pass < Dots::Passes(weight.dtype); ++pass) {
    for (int64_t k = 0; k < h; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, h - k);
      PackPanels(weight.Transposed(), nullptr, k, depth, tile * kTile, width, scratch.panels);
      Dots::Products({scratch.rows + k, plan.h, scratch.panels, depth, rows, CeilDiv(width, kPanel), z,
                      z_stride, pass > 0 || k > 0},
                     weight.dtype, pass);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = z + r * z_stride;
    if (h == 0) std::fill_n(row, width, 0.0f);
    std::fill(row + width, row + kTile, -std::numeric_limits<float>::infinity());
  }
}

template <class Hooks>
void TileLogits(const Plan& plan, const Matrix& weight, const Scratch& scratch, int64_t rows,
                int64_t tile, float* z, int64_t z_stride, const Hooks& hooks) {
  MultiplyTile<typename Hooks::Dots>(plan, weight, scratch, rows, plan.h, tile, z, z_stride);
  hooks.TileLogits(plan, weight, scratch, rows, tile, z, z_stride);
}

}  // namespace plumbline::kernel::host

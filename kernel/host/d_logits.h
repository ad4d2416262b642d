// SPDX-License-Identifier: Apache-2.0
//
// The gradient of one row's objective with respect to a tile of its logits, in fp32:
//   p = e / s,  ln p = -(t + l)
//   dx = g ([v = y] - p) - k p (ln p + H),  dz = dx / T
// The 1 at the label is combined with p before anything is rounded to a narrower type. p (ln p + H) is
// read as 0 at p = 0. At a logit of -inf p is 0, so dz is g / T for the label and 0 for any other
// column.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/dtype.h"
#include "kernel/host/convert.h"
#include "kernel/host/hooks.h"
#include "kernel/host/simd.h"
#include "kernel/host/softmax.h"
#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {

struct RowGradient {
  float m, s, log_s, entropy;  // as forward saved them
  float temperature;
  float g, k;
};

// Computes t of kTile logits, but the label's, as a device keeps them: the distance from the tile's own
// maximum, rounded to fp16, and that maximum's distance from the row's. p becomes e^-t.
inline void KeptExponents(const RowGradient& row, int64_t label, const float* z, float* t, float* p) {
  alignas(64) float minus_t[kTile];
  const float largest = TileMaximum(z), far = (row.m - largest) / row.temperature;
  for (int64_t j = 0; j < kTile; ++j) {
    const float near = z[j] == largest ? 0 : (largest - z[j]) / row.temperature;
    minus_t[j] = -(j == label ? t[j] : ToFloat(ToFloat16(near)) + far);
  }
  Exponentials(minus_t, 0, 1, kTile, t, p);
}

// Replaces kTile logits by their gradients, rounded to what the products of inputs of that dtype read.
// label is the position of the row's label in this tile, or anything outside [0, kTile).
template <class Hooks>
void TileGradient(RowGradient row, int64_t label, DType dtype, float* z, const Hooks& hooks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!(row.s > 0)) {  // a row without a softmax: NaN reaches every column, those at -inf too
    std::fill_n(z, kTile, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  alignas(64) float t[kTile];
  alignas(64) float p[kTile];
  Exponentials(z, row.m, row.temperature, kTile, t, p);
  if (Hooks::Dots::KeepsExponents(dtype)) KeptExponents(row, label, z, t, p);
  for (int64_t j = 0; j < kTile; ++j) p[j] = p[j] / row.s;
  hooks.Probabilities(z, row, t, p);
  const auto gradient = [&](float one, float p_v, float t_v) {
    const float log_p = -(t_v + row.log_s);
    const float entropy_term = p_v == 0 ? 0 : row.k * (p_v * (log_p + row.entropy));
    return (row.g * (one - p_v) - entropy_term) / row.temperature;
  };
  const bool has_label = label >= 0 && label < kTile;
  float at_label = 0;
  if (has_label) at_label = gradient(1, p[label], t[label]);
  for (int64_t j = 0; j < kTile; ++j) z[j] = z[j] == -kInfinity ? 0 : gradient(0, p[j], t[j]);
  if (has_label) z[label] = at_label;
  Hooks::Dots::Store(z, kTile, dtype);
  hooks.TileGradient(row, label, p, dtype, z);
}

}  // namespace plumbline::kernel::host

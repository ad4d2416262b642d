// SPDX-License-Identifier: Apache-2.0
//
// The gradient of one row's objective with respect to a tile of its logits, in fp32:
//   p = e / s,  ln p = -(t + l)
//   dx = g ([v = y] - p) - k p (ln p + H),  dz = dx / T
// The 1 at the label is combined with p before anything is rounded to a narrower type. p (ln p + H) is
// read as 0 at p = 0. dz is 0 at a logit of -inf, where g ([v = y] - p) would be g for the label.

#ifndef PLUMBLINE_KERNEL_HOST_D_LOGITS_H_
#define PLUMBLINE_KERNEL_HOST_D_LOGITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/dtype.h"
#include "kernel/host/defects.h"
#include "kernel/host/planted.h"
#include "kernel/host/simd.h"
#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {

struct RowGradient {
  float m, s, log_s, entropy;  // as forward saved them
  float temperature;
  float g, k;
};

// Replaces kTile logits by their gradients. label is the position of the row's label in this tile, or
// anything outside [0, kTile).
template <class Defects>
void TileGradient(const RowGradient& row, int64_t label, float* z, const Defects& defects) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!(row.s > 0)) {  // a row without a softmax: NaN reaches every column, those at -inf too
    std::fill_n(z, kTile, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  alignas(64) float t[kTile];
  alignas(64) float p[kTile];
  if (defects.Has(Defect::kExponentialFlushed) || defects.Has(Defect::kExponentialBase)) {
    planted::AlteredExponentials(z, row.m, row.temperature, t, p, defects);
  } else {
    Exponentials(z, row.m, row.temperature, kTile, t, p);
  }
  for (int64_t j = 0; j < kTile; ++j) p[j] = p[j] / row.s;
  if (defects.Has(Defect::kProbabilityRounded)) {
    std::transform(p, p + kTile, p, planted::ThroughBFloat16);
  }
  const float label_p = label >= 0 && label < kTile ? p[label] : 0;
  float divisor = row.temperature;
  if (defects.Has(Defect::kBackwardTemperature)) divisor = 1;
  const float entropy = defects.Has(Defect::kEntropyGradWithoutH)
                            ? 0
                            : row.entropy + (defects.Has(Defect::kEntropyGradExtraOne) ? 1.0f : 0.0f);
  const float k = defects.Has(Defect::kTemperatureTwice) ? row.k / row.temperature : row.k;
  // Where p = 0 in a kernel that forms p ln p: 0 times minus infinity.
  const bool p_log_p = defects.Has(Defect::kEntropyGradPLogP) && row.k != 0;
  const float at_zero = p_log_p ? std::numeric_limits<float>::quiet_NaN() : 0;
  const auto gradient = [&](float one, float p_v, float t_v) {
    const float log_p = -(t_v + row.log_s);
    const float entropy_term = p_v == 0 ? at_zero : k * (p_v * (log_p + entropy));
    return (row.g * (one - p_v) - entropy_term) / divisor;
  };
  float at_label = 0;
  if (label >= 0 && label < kTile)
    at_label = z[label] == -kInfinity ? at_zero : gradient(1, label_p, t[label]);
  for (int64_t j = 0; j < kTile; ++j) z[j] = z[j] == -kInfinity ? at_zero : gradient(0, p[j], t[j]);
  if (defects.Has(Defect::kSmallPSkipped)) {
    for (int64_t j = 0; j < kTile; ++j) z[j] = p[j] < 0x1p-12f ? 0 : z[j];
  }
  if (label >= 0 && label < kTile) z[label] = at_label;
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_D_LOGITS_H_

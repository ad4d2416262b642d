// SPDX-License-Identifier: Apache-2.0
//
// The operations on a SoftmaxState, and the results of a finished row:
//   l = ln s,  logprob = 0 - (t_y + l),  entropy = l + q / s,  lse = m / T + l
// logprob is never positive and entropy never negative, without a clamp. The maximum is one of the very
// values summed, so s >= 1 and l >= 0; t_y comes from the same bits of the label's logit, so t_y >= 0.

#ifndef PLUMBLINE_KERNEL_HOST_SOFTMAX_H_
#define PLUMBLINE_KERNEL_HOST_SOFTMAX_H_

#include <algorithm>
#include <limits>

#include "kernel/host/defects.h"
#include "kernel/host/natural_log.h"
#include "kernel/host/planted.h"
#include "kernel/host/simd.h"
#include "kernel/host/softmax_state.h"
#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {

// Returns the larger of the two; NaN if either is.
inline float LargerOrNaN(float a, float b) { return b > a || b != b ? b : a; }

template <class Defects>
SoftmaxState EmptyState(const Defects& defects) {
  SoftmaxState state;
  if (defects.Has(Defect::kMaxFromZero)) state.m = 0;
  if (defects.Has(Defect::kMaxFromSentinel)) state.m = -1e4F;
  return state;
}

// Moves the state's maximum to m, which is at least state.m, or NaN.
template <class Defects>
void MoveMaximum(SoftmaxState& state, float m, float temperature, const Defects& defects) {
  if (m == state.m) return;
  float from[kLanes], distance[kLanes], factor[kLanes];
  std::fill_n(from, kLanes, state.m);
  Exponentials(from, m, temperature, kLanes, distance, factor);
  const float d = distance[0];
  const float f = factor[0];
  const float moved = f == 0 ? 0 : f * d;
  state.q = defects.Has(Defect::kEntropyNotRebased) ? f * state.q : f * state.q + moved * state.s;
  state.s = f * state.s;
  state.m = m;
}

// Adds the kTile logits z; a logit of -inf counts as no column.
template <class Defects>
void AddTile(SoftmaxState& state, const float* z, float temperature, const Defects& defects) {
  MoveMaximum(state, LargerOrNaN(state.m, TileMaximum(z)), temperature, defects);
  const bool altered =
      defects.Has(Defect::kExponentialFlushed) || defects.Has(Defect::kExponentialBase);
  const TileSums sums = altered ? planted::AlteredSums(z, state.m, temperature, defects)
                                : SumTile(z, state.m, temperature);
  if (defects.Has(Defect::kEmptyTileNaN) && state.m == -std::numeric_limits<float>::infinity()) {
    state.s = std::numeric_limits<float>::quiet_NaN();
  }
  state.s += sums.s;
  state.q += sums.q;
}

template <class Defects>
void MergeState(SoftmaxState& state, SoftmaxState next, float temperature, const Defects& defects) {
  float m = LargerOrNaN(state.m, next.m);
  if (defects.Has(Defect::kMergeMaxFromZero)) m = LargerOrNaN(0, m);
  if (defects.Has(Defect::kMergeWithoutRescale)) {
    state.m = m;
  } else {
    MoveMaximum(state, m, temperature, defects);
    MoveMaximum(next, m, temperature, defects);
  }
  state.s += next.s;
  state.q += next.q;
}

struct RowResult {
  float logprob, entropy, lse;
  float log_s;
};

template <class Defects>
RowResult FinishRow(const SoftmaxState& state, float label_logit, float temperature,
                    const Defects& defects) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (!(state.s > 0)) return {kNaN, kNaN, kNaN, kNaN};
  RowResult row;
  row.log_s = NaturalLog(state.s);
  const float t_label =
      (state.m - label_logit) / (defects.Has(Defect::kLabelTemperature) ? 1 : temperature);
  row.logprob = 0 - (t_label + row.log_s);
  row.entropy = row.log_s + state.q / state.s;
  row.lse = state.m / (defects.Has(Defect::kLseTemperature) ? 1 : temperature) + row.log_s;
  if (defects.Has(Defect::kPlainLogprob)) row.logprob = label_logit / temperature - row.lse;
  if (defects.Has(Defect::kPlainEntropy)) {
    row.entropy = row.lse - (state.m / temperature - state.q / state.s);
  }
  return row;
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_SOFTMAX_H_

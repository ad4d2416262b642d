// SPDX-License-Identifier: Apache-2.0
//
// The operations on a SoftmaxState, and the results of a finished row:
//   l = ln s,  logprob = 0 - (t_y + l),  entropy = l + q / s,  lse = m / T + l
// logprob is never positive and entropy never negative, without a clamp. The maximum is one of the very
// values summed, so s >= 1 and l >= 0; t_y comes from the same bits of the label's logit, so t_y >= 0.

#pragma once

#include <algorithm>
#include <limits>

#include "kernel/host/hooks.h"
#include "kernel/host/natural_log.h"
#include "kernel/host/simd.h"
#include "kernel/host/softmax_state.h"
#include "kernel/host/tiling.h"

namespace plumbline::kernel::host {

// Returns the larger of the two; NaN if either is.
inline float LargerOrNaN(float a, float b) { return b > a || b != b ? b : a; }

// Moves the state's maximum to m, which is at least state.m, or NaN.
template <class Hooks>
void MoveMaximum(SoftmaxState& state, float m, float temperature, const Hooks& hooks) {
  if (m == state.m) return;
  const SoftmaxState before = state;
  float from[kLanes], distance[kLanes], factor[kLanes];
  std::fill_n(from, kLanes, before.m);
  Exponentials(from, m, temperature, kLanes, distance, factor);
  const float d = distance[0];
  const float f = factor[0];
  const float moved = f == 0 ? 0 : f * d;
  state = {m, f * before.s, f * before.q + moved * before.s};
  hooks.MoveMaximum(before, f, state);
}

// Adds the kTile logits z, of which `width` are in the vocabulary; a logit of -inf counts as no column.
template <class Hooks>
void AddTile(SoftmaxState& state, const float* z, int64_t width, float temperature,
             const Hooks& hooks) {
  MoveMaximum(state, LargerOrNaN(state.m, TileMaximum(z)), temperature, hooks);
  TileSums sums = SumTile(z, state.m, temperature);
  hooks.SumTile(z, width, state.m, temperature, sums);
  state.s += sums.s;
  state.q += sums.q;
}

template <class Hooks>
void MergeState(SoftmaxState& state, SoftmaxState next, float temperature, const Hooks& hooks) {
  const float m = LargerOrNaN(state.m, next.m);
  MoveMaximum(state, m, temperature, hooks);
  MoveMaximum(next, m, temperature, hooks);
  state.s += next.s;
  state.q += next.q;
}

struct RowResult {
  float logprob, entropy, lse;
  float log_s;
};

inline RowResult FinishRow(const SoftmaxState& state, float label_logit, float temperature) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (!(state.s > 0)) return {kNaN, kNaN, kNaN, kNaN};
  RowResult row;
  row.log_s = NaturalLog(state.s);
  const float t_label = (state.m - label_logit) / temperature;
  row.logprob = 0 - (t_label + row.log_s);
  row.entropy = row.log_s + state.q / state.s;
  row.lse = state.m / temperature + row.log_s;
  return row;
}

}  // namespace plumbline::kernel::host

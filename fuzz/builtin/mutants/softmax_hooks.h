// SPDX-License-Identifier: Apache-2.0
//
// What the host's mutants make of a tile of logits, of the online softmax and of its splits. The hook
// points are those of kernel/host/hooks.h.

#pragma once

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cstdint>
#include <limits>

#include "fuzz/builtin/mutants/input_hooks.h"
#include "kernel/dtype.h"
#include "kernel/host/rows.h"
#include "kernel/host/simd.h"
#include "kernel/host/softmax.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"

namespace plumbline::fuzz {

inline float ThroughBFloat16(float value) { return kernel::ToFloat(kernel::ToBFloat16(value)); }

struct SoftmaxHooks : InputHooks {
  // A row of a tile of logits that is complete, but for `hidden-tail-dropped` and `inputs-tf32`.
  void AlterLogits(float* row, int64_t tile, int64_t width) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    float* const padding = row + width;
    float* const end = row + host::kTile;
    if (Is("tail-unmasked")) std::fill(padding, end, 0.0f);
    if (Is("tail-sentinel")) std::fill(padding, end, -1e4F);
    if (Is("tail-dropped") && tile > 0 && width < host::kTile) std::fill(row, padding, -kInfinity);
    if (Is("logits-rounded")) std::transform(row, padding, row, ThroughBFloat16);
    if (Is("logits-fp16")) {
      std::transform(row, padding, row, [](float z) { return kernel::ToFloat(kernel::ToFloat16(z)); });
    }
    if (Is("nan-dropped")) {
      std::replace_if(
          row, padding, [](float z) { return z != z; }, -kInfinity);
    }
    if (Is("infinity-clamped")) {
      std::replace(row, padding, kInfinity, std::numeric_limits<float>::max());
    }
  }

  void MoveMaximum(const host::SoftmaxState& before, float factor, host::SoftmaxState& state) const {
    if (Is("entropy-not-rebased")) state.q = factor * before.q;
    const bool empty = before.m == -std::numeric_limits<float>::infinity();
    if (Is("max-from-zero") && empty) state.m = host::LargerOrNaN(0, state.m);
    if (Is("max-from-sentinel") && empty) state.m = host::LargerOrNaN(-1e4F, state.m);
  }

  // Exponentials of a tile as two mutants compute them.
  void AlterExponentials(const float* z, float m, float temperature, float* t, float* e) const {
    host::Exponentials(z, m, temperature, host::kTile, t, e);
    if (Is("exponential-flushed")) {
      for (int64_t j = 0; j < host::kTile; ++j) e[j] = e[j] < FLT_MIN ? 0 : e[j];
    }
    if (Is("exponential-base")) {
      constexpr float kRatio = 1.4453125F / 1.44269504F;  // log2 e in bf16, over log2 e
      float scaled[host::kTile], unused[host::kTile];
      for (int64_t j = 0; j < host::kTile; ++j) scaled[j] = -kRatio * t[j];
      host::Exponentials(scaled, 0, 1, host::kTile, unused, e);
    }
  }

  void SumTile(const float* z, int64_t width, float m, float temperature, host::TileSums& sums) const {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    const bool altered = Is("exponential-flushed") || Is("exponential-base");
    if (altered || Is("entropy-p-log-p")) {
      float t[host::kTile], e[host::kTile];
      AlterExponentials(z, m, temperature, t, e);
      if (altered) sums = {0, 0};
      for (int64_t j = 0; altered && j < host::kTile; ++j) {
        sums.s += e[j];
        sums.q += e[j] == 0 ? 0 : e[j] * t[j];
      }
      if (Is("entropy-p-log-p") && std::find(e, e + width, 0.0f) != e + width) sums.q = kNaN;
    }
    if (Is("empty-tile-nan") && m == -std::numeric_limits<float>::infinity()) sums.s = kNaN;
  }

  // Passes of forward that have ended: what a race, or a choice by the clock, is stood in for by.
  static std::atomic<uint32_t>& Passes() {
    static std::atomic<uint32_t> passes{0};
    return passes;
  }

  // The states of a row's splits, merged.
  host::SoftmaxState Merged(const host::Plan& plan, const host::ForwardMemory& memory, int64_t at,
                            float temperature) const {
    int64_t splits = plan.tiling.splits;
    if (Is("odd-split-dropped") && splits > 2) splits = splits / 2 * 2;
    if (Is("splits-not-merged") || (Is("large-vocab-unmerged") && plan.v > 32'768)) splits = 1;
    const bool reversed =
        (Is("merge-order-by-run") && Passes() % 2 == 1) || (Is("merge-order-by-batch") && plan.n > 1);
    const auto state_of = [&](int64_t step) {
      return memory.states[(reversed ? splits - 1 - step : step) * plan.n + at];
    };
    host::SoftmaxState state = state_of(0);
    for (int64_t step = 1; step < splits; ++step) {
      host::SoftmaxState next = state_of(step);
      float m = host::LargerOrNaN(state.m, next.m);
      if (Is("merge-max-from-zero")) m = host::LargerOrNaN(0, m);
      if (Is("merge-without-rescale")) {
        state.m = m;
      } else {
        host::MoveMaximum(state, m, temperature, *this);
        host::MoveMaximum(next, m, temperature, *this);
      }
      state.s += next.s;
      state.q += next.q;
    }
    return state;
  }

  void FinishRow(const host::Plan& plan, const host::ForwardMemory& memory, int64_t at,
                 const host::Row& row, host::SoftmaxState& state, host::RowResult& result) const {
    const float temperature = row.temperature;
    float label_logit = memory.label_logit[at];
    state = Merged(plan, memory, at, temperature);
    if (Is("stale-scratch")) {
      thread_local float left = 0;  // by the row before, of the same block
      if (at % host::kRowBlock == 0) left = 0;
      state.q = left += state.q;
    }
    const int64_t tile = row.label / host::kTile;
    if (Is("label-in-tail-lost") && tile > 0 && plan.tiling.Width(tile) < host::kTile) label_logit = 0;
    result = host::FinishRow(state, label_logit, temperature);
    if (!(state.s > 0)) return;
    if (Is("label-temperature")) result.logprob = 0 - (state.m - label_logit + result.log_s);
    if (Is("lse-temperature")) result.lse = state.m + result.log_s;
    if (Is("plain-logprob")) result.logprob = label_logit / temperature - result.lse;
    if (Is("plain-entropy")) {
      result.entropy = result.lse - (state.m / temperature - state.q / state.s);
    }
  }
};

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// What the host's mutants make of d_logits and of the gradients. The hook points are those of
// kernel/host/hooks.h.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "fuzz/builtin/mutants/forward_hooks.h"
#include "kernel/dtype.h"
#include "kernel/host/backward.h"
#include "kernel/host/d_logits.h"
#include "kernel/host/rows.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct BackwardHooks : ForwardHooks {
  void ListBackward(host::BackwardState& state) const {
    const kernel::Problem& problem = state.problem;
    if (Is("ignored-row-leaks") || Is("ignored-row-backward")) ListIgnoredToo(state);
    if (Is("first-ignored-stops-all") &&
        host::ReadRow(problem, 0, *this).kind == host::RowKind::kIgnored) {
      state.count = 0;
    }
    if (Is("early-return") && state.count == 0) {
      state.results.grad_hidden.reset();
      state.results.grad_weight.reset();
    }
    if (Is("grad-in-place") && problem.grad_logprob && problem.reduction != kernel::Reduction::kNone) {
      auto* const gamma = static_cast<float*>(const_cast<void*>(problem.grad_logprob->data));
      *gamma = host::LogprobGradient(*gamma, problem.reduction, state.counted);
    }
    if (Is("invalid-row-forgotten")) state.invalid = false;
    if (Is("stretch-out-of-order")) {
      const host::Plan& plan = state.plan;
      FirstStretch().resize(static_cast<size_t>(plan.n * host::RoundUp(plan.h, host::kTile)));
    }
  }

  void Probabilities(const float* z, host::RowGradient& row, float* t, float* p) const {
    if (Is("exponential-flushed") || Is("exponential-base")) {
      AlterExponentials(z, row.m, row.temperature, t, p);
      for (int64_t j = 0; j < host::kTile; ++j) p[j] = p[j] / row.s;
    }
    if (Is("probability-rounded")) std::transform(p, p + host::kTile, p, ThroughBFloat16);
    if (Is("entropy-grad-without-h")) row.entropy = 0;
    if (Is("entropy-grad-extra-one")) row.entropy += 1;
    if (Is("temperature-twice")) row.k /= row.temperature;
    if (Is("backward-temperature")) row.temperature = 1;
  }

  void TileGradient(const host::RowGradient& row, int64_t label, const float* p, kernel::DType dtype,
                    float* z) const {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (int64_t j = 0; j < host::kTile; ++j) {
      // p ln p is 0 times minus infinity.
      if (Is("entropy-grad-p-log-p") && row.k != 0 && p[j] == 0) z[j] = kNaN;
      if (Is("small-p-skipped") && j != label && p[j] < 0x1p-12f) z[j] = 0;
      if (Is("d-logits-rounded") && dtype == kernel::DType::kF32) z[j] = ThroughBFloat16(z[j]);
    }
  }

  bool StoreGradHidden(host::RowKind kind) const {
    return !Is("zero-grad-unwritten") || kind != host::RowKind::kNormal;
  }

  // The sums of the first stretch of grad_hidden, as they lie in BackwardMemory::grad_hidden: what
  // waits to be added. One pass runs at a time.
  static std::vector<float>& FirstStretch() {
    static std::vector<float> sums;
    return sums;
  }

 private:
  void ListIgnoredToo(host::BackwardState& state) const {
    state.count = 0;
    for (int64_t i = 0; i < state.plan.n; ++i) {
      const host::RowKind kind = host::ReadRow(state.problem, i, *this).kind;
      const bool leaks = Is("ignored-row-leaks") && kind == host::RowKind::kIgnored;
      host::Upstream up = host::ReadUpstream(state.problem, i, state.counted, *this);
      if (leaks) up = {0, 0};
      const bool listed = leaks ? state.plan.v > 0  // else it would leak whatever memory held
                                : kind != host::RowKind::kInvalid && (up.g != 0 || up.k != 0);
      if (!listed) continue;
      state.memory.rows[state.count] = i;
      state.memory.g[state.count] = up.g;
      state.memory.k[state.count] = up.k;
      ++state.count;
    }
  }
};

}  // namespace plumbline::fuzz

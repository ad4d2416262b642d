// SPDX-License-Identifier: Apache-2.0
//
// The host's operator with one of its mutants' defects, as a policy of kernel/host/hooks.h: all hook
// points, for either kind of dot products. One instantiation of the operator serves all mutants on one
// kind; which defect is active is asked at run time.

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/builtin/mutants/backward_hooks.h"
#include "kernel/dtype.h"
#include "kernel/host/backward.h"
#include "kernel/host/convert.h"
#include "kernel/host/logits.h"
#include "kernel/host/rows.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"

namespace plumbline::fuzz {

template <class DotPolicy>
struct MutantHooks : BackwardHooks {
  using Dots = DotPolicy;

  void TileLogits(const host::Plan& plan, const host::Matrix& weight, const host::Scratch& scratch,
                  int64_t rows, int64_t tile, float* z, int64_t z_stride) const {
    const auto multiply = [&](int64_t h) {
      host::MultiplyTile<Dots>(plan, weight, scratch, rows, h, tile, z, z_stride);
    };
    if (Is("hidden-tail-dropped") && plan.h > 16) multiply(plan.h / 16 * 16);
    if (Is("inputs-tf32") && weight.dtype == kernel::DType::kF32) {
      std::transform(scratch.rows, scratch.rows + rows * plan.h, scratch.rows, ToTf32);
      multiply(plan.h);
    }
    for (int64_t r = 0; r < rows; ++r) AlterLogits(z + r * z_stride, tile, plan.tiling.Width(tile));
  }

  void GradHidden(const host::BackwardState& state, int64_t begin, int64_t end, int64_t column,
                  int pass, int64_t summed) const {
    const host::Plan& plan = state.plan;
    const int64_t stride = host::RoundUp(plan.h, host::kTile);
    const int64_t width = std::min(host::kTile, plan.h - column);
    const bool chunk_ends =
        pass + 1 == Dots::Passes(state.problem.hidden.dtype) && summed == state.width;
    for (int64_t i = begin; i < end; ++i) {
      float* const sums = state.memory.grad_hidden + i * stride + column;
      if (Is("grad-hidden-accumulator")) std::transform(sums, sums + width, sums, ThroughBFloat16);
      // The next chunk begins anew.
      if (Is("grad-hidden-partial") && chunk_ends && state.first + state.width < plan.v) {
        std::fill_n(sums, width, 0.0f);
      }
      if (Is("stretch-out-of-order") && chunk_ends && Passes() % 2 == 1) {
        AddFirstStretchLast(state, i * stride + column, width);
      }
    }
  }

  int64_t GradWeight(const host::BackwardState& state, const host::Scratch& scratch,
                     const host::GradWeightBlock& block, int64_t rows) const {
    if (Is("grad-weight-accumulator")) SumGradWeight(state, scratch, block, state.count, 16);
    if (Is("grad-weight-row-tail")) {
      SumGradWeight(state, scratch, block, state.count / 4 * 4, host::kDepthBlock);
    }
    if (Is("infinite-label-left-out")) LeaveOutInfiniteLabels(state, scratch, block);
    if (!Is("grad-weight-tail-unwritten")) return rows;
    return std::clamp<int64_t>(state.plan.v / 16 * 16 - (state.first + block.begin), 0, rows);
  }

 private:
  // Holds the first stretch's sums back, from element `at` on, and adds them to the totals when the
  // last stretch has ended. With two stretches the sum is the same in either order.
  static void AddFirstStretchLast(const host::BackwardState& state, int64_t at, int64_t width) {
    const int64_t end = state.first + state.width;
    float* const sums = state.memory.grad_hidden + at;
    float* const held = FirstStretch().data() + at;
    if (state.plan.v <= state.plan.stretch) return;
    if (end == state.plan.stretch) {
      std::copy_n(sums, width, held);
      std::fill_n(sums, width, 0.0f);
    }
    if (end != state.plan.v) return;
    float* const totals = state.memory.totals + at;
    for (int64_t j = 0; j < width; ++j) totals[j] += sums[j];
    std::copy_n(held, width, sums);  // which the operator adds next
  }

  // To 10 bits of fraction, ties to even; NaN and infinities as they are.
  static float ToTf32(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits >> 23 & 0xff) == 0xff) return value;
    return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
  }

  // Subtracts what rows whose label has a logit of -inf have added to the label's row of grad_weight.
  // Such a label has an infinite weight, and of the rows with a softmax no other has.
  void LeaveOutInfiniteLabels(const host::BackwardState& state, const host::Scratch& scratch,
                              const host::GradWeightBlock& block) const {
    const int64_t size = state.plan.h;
    std::vector<float> hidden(static_cast<size_t>(size)), weight(hidden.size());
    for (int64_t k = 0; k < state.count; ++k) {
      const int64_t i = state.memory.rows[k];
      const int64_t label = host::ReadRow(state.problem, i, *this).label, at = label - state.first;
      if (at < block.begin || at >= block.end) continue;
      host::WidenRows(host::Matrix::Of(state.problem.weight), &label, 1, size, weight.data());
      if (std::ranges::none_of(weight, [](float w) { return std::isinf(w); })) continue;
      host::WidenRows(host::Matrix::Of(state.problem.hidden), &i, 1, size, hidden.data());
      const float dz = state.memory.d_logits[k * state.plan.chunk + at];
      float* const sums = scratch.product + (at - block.begin) * host::kColumnGroup;
      for (int64_t j = 0; j < block.width; ++j) {
        sums[j] -= dz * hidden[static_cast<size_t>(block.column + j)];
      }
    }
  }

  // The block anew from the first `count` rows of the list, `step` of them at a time.
  void SumGradWeight(const host::BackwardState& state, const host::Scratch& scratch,
                     const host::GradWeightBlock& block, int64_t count, int64_t step) const {
    const int64_t rows = block.end - block.begin;
    if (count == 0) std::fill_n(scratch.product, rows * host::kColumnGroup, 0.0f);
    for (int pass = 0; pass < Dots::Passes(state.problem.hidden.dtype); ++pass) {
      for (int64_t k = 0; k < count; k += step) {
        host::AddGradWeight<Dots>(state, scratch, block, pass, k, std::min(step, count - k));
        for (int64_t r = 0; Is("grad-weight-accumulator") && r < rows; ++r) {
          float* const sums = scratch.product + r * host::kColumnGroup;
          std::transform(sums, sums + block.width, sums, ThroughBFloat16);
        }
      }
    }
  }
};

}  // namespace plumbline::fuzz

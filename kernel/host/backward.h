// SPDX-License-Identifier: Apache-2.0
//
// The backward pass, by chunks of the vocabulary. For each chunk it computes the logits again, turns
// them into d_logits (the only matrix of rows x columns, never wider than a chunk), and computes
//   grad_hidden += dz . weight     one chain an element over all chunks, ascending in v
//   grad_weight  = dz^T . hidden   one chain an element, ascending in the row; rounded once
// The policy of kernel/host/dot_policy.h computes the chains.
//
// Ignored rows and rows with g = k = 0 are left out of the list of rows: whatever they hold, NaN
// included, is never multiplied. Invalid rows are left out too, and their NaN is written.

#ifndef PLUMBLINE_KERNEL_HOST_BACKWARD_H_
#define PLUMBLINE_KERNEL_HOST_BACKWARD_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/d_logits.h"
#include "kernel/host/defects.h"
#include "kernel/host/logits.h"
#include "kernel/host/parallel.h"
#include "kernel/host/planted.h"
#include "kernel/host/rows.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// State that the stages of one pass share.
struct BackwardState {
  const Problem& problem;
  const Results& results;
  const Plan& plan;
  const BackwardMemory& memory;
  const SavedRows<const float>& saved;
  int64_t count;  // rows that take part
  int64_t first;  // the chunk's first column
  int64_t width;  // and its columns
};

// Fills memory.rows, g and k; returns how many rows take part.
template <class Defects>
int64_t ListRows(const Problem& problem, const Plan& plan, const BackwardMemory& memory,
                 int64_t counted, const Defects& defects) {
  int64_t count = 0;
  if (defects.Has(Defect::kFirstIgnoredStopsAll) &&
      ReadRow(problem, 0, defects).kind == RowKind::kIgnored) {
    return 0;
  }
  for (int64_t i = 0; i < plan.n; ++i) {
    const RowKind kind = ReadRow(problem, i, defects).kind;
    if (kind == RowKind::kInvalid) continue;
    const bool ignored = kind == RowKind::kIgnored;
    // Without a vocabulary what leaked would be whatever memory held.
    const bool leaks = ignored && plan.v > 0 && defects.Has(Defect::kIgnoredRowLeaks);
    if (ignored && !leaks && !defects.Has(Defect::kIgnoredRowBackward)) continue;
    const Upstream up = leaks ? Upstream{0, 0} : ReadUpstream(problem, i, counted, defects);
    if (!leaks && up.g == 0 && up.k == 0) continue;
    memory.rows[count] = i;
    memory.g[count] = up.g;
    memory.k[count] = up.k;
    ++count;
  }
  return count;
}

// Computes d_logits of positions [begin, end) and tiles [first_tile, end_tile).
template <class Defects>
void LogitsItem(const BackwardState& state, const Scratch& scratch, int64_t begin, int64_t end,
                int64_t first_tile, int64_t end_tile, const Defects& defects) {
  const Plan& plan = state.plan;
  const BackwardMemory& memory = state.memory;
  const int64_t count = end - begin;
  WidenRows(Matrix::Of(state.problem.hidden), memory.rows + begin, count, plan.h, scratch.rows);
  for (int64_t tile = first_tile; tile < end_tile; ++tile) {
    float* const z = memory.d_logits + begin * plan.chunk + (tile * kTile - state.first);
    TileLogits(plan, WeightOf(state.problem, defects), scratch, count, tile, z, plan.chunk, defects);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t i = memory.rows[begin + r];
      const Row row = ReadRow(state.problem, i, defects);
      const int64_t column = LabelColumn(row.label, plan.tiling, defects);
      const int64_t label = column >= tile * kTile && column < tile * kTile + plan.tiling.Width(tile)
                                ? column - tile * kTile
                                : -1;
      const RowGradient gradient = {state.saved.m[i],       state.saved.s[i], state.saved.log_s[i],
                                    state.saved.entropy[i], row.temperature,  memory.g[begin + r],
                                    memory.k[begin + r]};
      TileGradient(gradient, label, z + r * plan.chunk, defects);
      Defects::Dots::Store(z + r * plan.chunk, kTile, state.problem.hidden.dtype);
      if (defects.Has(Defect::kDLogitsRounded) && state.problem.hidden.dtype == DType::kF32) {
        float* const row_of_tile = z + r * plan.chunk;
        std::transform(row_of_tile, row_of_tile + kTile, row_of_tile, planted::ThroughBFloat16);
      }
    }
  }
}

// Adds the chunk's products to grad_hidden of positions [begin, end), one tile of its columns.
template <class Defects>
void GradHiddenItem(const BackwardState& state, const Scratch& scratch, int64_t begin, int64_t end,
                    int64_t column, const Defects& defects) {
  using Dots = typename Defects::Dots;
  const Plan& plan = state.plan;
  const int64_t stride = RoundUp(plan.h, kTile);
  const int64_t width = std::min(kTile, plan.h - column);
  const DType dtype = state.problem.hidden.dtype;
  for (int pass = 0; pass < Dots::Passes(dtype); ++pass) {
    for (int64_t k = 0; k < state.width; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, state.width - k);
      PackPanels(WeightOf(state.problem, defects), nullptr, state.first + k, depth, column, width,
                 scratch.panels);
      Dots::Products(
          {state.memory.d_logits + begin * plan.chunk + k, plan.chunk, scratch.panels, depth,
           end - begin, CeilDiv(width, kPanel), state.memory.grad_hidden + begin * stride + column,
           stride, pass > 0 || (defects.Has(Defect::kGradHiddenPartial) ? k : state.first + k) > 0},
          dtype, pass);
      if (!defects.Has(Defect::kGradHiddenAccumulator)) continue;
      for (int64_t i = begin; i < end; ++i) {
        float* const sums = state.memory.grad_hidden + i * stride + column;
        std::transform(sums, sums + width, sums, planted::ThroughBFloat16);
      }
    }
  }
}

// Computes rows [begin, end) of the chunk of grad_weight, columns [column, column + width), over all
// rows listed.
template <class Defects>
void GradWeightItem(const BackwardState& state, const Scratch& scratch, int64_t begin, int64_t end,
                    int64_t column, int64_t width, const Defects& defects) {
  using Dots = typename Defects::Dots;
  const Plan& plan = state.plan;
  const int64_t rows = end - begin;
  const DType dtype = state.problem.hidden.dtype;
  const bool narrow = defects.Has(Defect::kGradWeightAccumulator);
  const int64_t step = narrow ? 16 : kDepthBlock;
  int64_t count = state.count;
  if (defects.Has(Defect::kGradWeightRowTail)) {
    count = count / 4 * 4;
    if (count == 0) std::fill_n(scratch.product, rows * kColumnGroup, 0.0f);
  }
  for (int pass = 0; pass < Dots::Passes(dtype); ++pass) {
    for (int64_t k = 0; k < count; k += step) {
      const int64_t depth = std::min(step, count - k);
      Transpose(state.memory.d_logits + k * plan.chunk + begin, plan.chunk, depth, rows, scratch.rows,
                kDepthBlock);
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t tile = std::min(kTile, width - j);
        PackPanels(Matrix::Of(state.problem.hidden), state.memory.rows, k, depth, column + j, tile,
                   scratch.panels);
        Dots::Products({scratch.rows, kDepthBlock, scratch.panels, depth, rows, CeilDiv(tile, kPanel),
                        scratch.product + j, kColumnGroup, pass > 0 || k > 0},
                       dtype, pass);
      }
      for (int64_t r = 0; narrow && r < rows; ++r) {
        float* const sums = scratch.product + r * kColumnGroup;
        std::transform(sums, sums + width, sums, planted::ThroughBFloat16);
      }
    }
  }
  int64_t written = rows;
  if (defects.Has(Defect::kGradWeightTailUnwritten)) {
    written = std::clamp<int64_t>(plan.v / 16 * 16 - (state.first + begin), 0, rows);
  }
  StoreBlock(*state.results.grad_weight, state.first + begin, written, column, width, scratch.product,
             kColumnGroup);
}

// Computes one chunk: its d_logits, then its part of both gradients.
template <class Defects>
void BackwardChunk(const BackwardState& state, void* workspace, bool with_grad_weight,
                   const Defects& defects) {
  const Plan& plan = state.plan;
  const int64_t row_blocks = CeilDiv(state.count, kRowBlock);
  const auto end_of = [&](int64_t begin) { return std::min(begin + kRowBlock, state.count); };

  constexpr int64_t kTilesAnItem = 4;
  const int64_t tiles = CeilDiv(state.width, kTile);
  const int64_t groups = CeilDiv(tiles, kTilesAnItem);
  const int64_t first_tile = state.first / kTile;
  ParallelFor(plan.threads, row_blocks * groups, [&](int worker, int64_t item) {
    const int64_t begin = item / groups * kRowBlock;
    const int64_t group = item % groups * kTilesAnItem;
    LogitsItem(state, plan.ScratchOf(workspace, worker), begin, end_of(begin), first_tile + group,
               first_tile + std::min(tiles, group + kTilesAnItem), defects);
  });

  const int64_t hidden_tiles = state.results.grad_hidden ? CeilDiv(plan.h, kTile) : 0;
  const int64_t hidden_items = row_blocks * hidden_tiles;
  const int64_t column_groups = with_grad_weight ? CeilDiv(plan.h, kColumnGroup) : 0;
  const int64_t weight_items = CeilDiv(state.width, kRowBlock) * column_groups;
  ParallelFor(plan.threads, hidden_items + weight_items, [&](int worker, int64_t item) {
    const Scratch scratch = plan.ScratchOf(workspace, worker);
    if (item < hidden_items) {
      const int64_t begin = item / hidden_tiles * kRowBlock;
      GradHiddenItem(state, scratch, begin, end_of(begin), item % hidden_tiles * kTile, defects);
    } else {
      const int64_t begin = (item - hidden_items) / column_groups * kRowBlock;
      const int64_t column = (item - hidden_items) % column_groups * kColumnGroup;
      GradWeightItem(state, scratch, begin, std::min(begin + kRowBlock, state.width), column,
                     std::min(kColumnGroup, plan.h - column), defects);
    }
  });
}

// Stores grad_hidden from its accumulator, rounded once. Rows left out get +0, invalid ones NaN.
template <class Defects>
void StoreGradHidden(const Problem& problem, const Tensor& grad_hidden, const Plan& plan,
                     const BackwardMemory& memory, int64_t count, const Defects& defects) {
  const int64_t stride = RoundUp(plan.h, kTile);
  int64_t at = 0;
  for (int64_t i = 0; i < plan.n; ++i) {
    if (at < count && memory.rows[at] == i) {
      StoreBlock(grad_hidden, i, 1, 0, plan.h, memory.grad_hidden + at * stride, stride);
      ++at;
    } else {
      const RowKind kind = ReadRow(problem, i, defects).kind;
      if (defects.Has(Defect::kZeroGradUnwritten) && kind == RowKind::kNormal) continue;
      const bool invalid = kind == RowKind::kInvalid;
      FillRow(grad_hidden, i, invalid ? std::numeric_limits<float>::quiet_NaN() : 0);
    }
  }
}

inline void FillMatrix(const Tensor& output, float value) {
  for (int64_t row = 0; row < output.shape[0]; ++row) FillRow(output, row, value);
}

// Runs the whole pass over checked arguments. At least one gradient is present.
template <class Defects>
void BackwardPass(const Problem& problem, const Results& results, const Plan& plan, void* workspace,
                  const void* saved, const RowCensus& census, const Defects& defects) {
  if (plan.n == 0 || plan.h == 0) {
    if (results.grad_weight) FillMatrix(*results.grad_weight, 0);
    return;
  }
  const BackwardMemory memory = plan.Backward(workspace);
  const int64_t count = ListRows(problem, plan, memory, census.counted, defects);
  if (defects.Has(Defect::kEarlyReturn) && count == 0) return;
  if (defects.Has(Defect::kGradInPlace) && problem.grad_logprob &&
      problem.reduction != Reduction::kNone) {
    const float gamma = ReadFloat(*problem.grad_logprob, 0);
    planted::WriteInput(*problem.grad_logprob, 0,
                        LogprobGradient(gamma, problem.reduction, census.counted));
  }
  const bool has_invalid = census.first_invalid >= 0 && !defects.Has(Defect::kInvalidRowForgotten);
  const bool with_grad_weight = results.grad_weight && !has_invalid && count > 0;
  if (results.grad_weight && !with_grad_weight) {
    FillMatrix(*results.grad_weight, has_invalid ? std::numeric_limits<float>::quiet_NaN() : 0);
  }
  const SavedRows<const float> kept = plan.Saved(saved);
  if (count > 0 && (results.grad_hidden || with_grad_weight)) {
    for (int64_t first = 0; first < plan.v; first += plan.chunk) {
      const BackwardState state = {problem, results, plan,  memory,
                                   kept,    count,   first, std::min(plan.chunk, plan.v - first)};
      BackwardChunk(state, workspace, with_grad_weight, defects);
    }
  }
  if (results.grad_hidden) {
    StoreGradHidden(problem, *results.grad_hidden, plan, memory, count, defects);
  }
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_BACKWARD_H_

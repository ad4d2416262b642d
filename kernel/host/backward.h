// SPDX-License-Identifier: Apache-2.0
//
// The backward pass, by chunks of the vocabulary. For each chunk it computes the logits again, turns
// them into d_logits (the only matrix of rows x columns, never wider than a chunk), and computes
//   grad_hidden += dz . weight     one chain an element over all chunks, ascending in v; or one for
//                                  each stretch, and their sums added in order
//   grad_weight  = dz^T . hidden   one chain an element, ascending in the row; rounded once
// The policy of kernel/host/dot_policy.h computes the chains.
//
// Ignored rows and rows with g = k = 0 are left out of the list of rows: whatever they hold, NaN
// included, is never multiplied. Invalid rows are left out too, and their NaN is written.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernel/host/convert.h"
#include "kernel/host/d_logits.h"
#include "kernel/host/hooks.h"
#include "kernel/host/logits.h"
#include "kernel/host/parallel.h"
#include "kernel/host/rows.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// State that the stages of one pass share.
struct BackwardState {
  const Problem& problem;
  Results results;
  const Plan& plan;
  const BackwardMemory& memory;
  const SavedRows<const float>& saved;
  int64_t counted;    // rows not ignored
  bool invalid;       // a row is, so grad_weight is NaN
  int64_t count = 0;  // rows that take part
  int64_t first = 0;  // the chunk's first column
  int64_t width = 0;  // and its columns
};

// Fills memory.rows, g and k with the rows that take part.
template <class Hooks>
void ListBackward(BackwardState& state, const Hooks& hooks) {
  const BackwardMemory& memory = state.memory;
  for (int64_t i = 0; i < state.plan.n; ++i) {
    if (ReadRow(state.problem, i, hooks).kind != RowKind::kNormal) continue;
    const Upstream up = ReadUpstream(state.problem, i, state.counted, hooks);
    if (up.g == 0 && up.k == 0) continue;
    memory.rows[state.count] = i;
    memory.g[state.count] = up.g;
    memory.k[state.count] = up.k;
    ++state.count;
  }
  hooks.ListBackward(state);
}

// Computes d_logits of positions [begin, end) and tiles [first_tile, end_tile).
template <class Hooks>
void LogitsItem(const BackwardState& state, const Scratch& scratch, int64_t begin, int64_t end,
                int64_t first_tile, int64_t end_tile, const Hooks& hooks) {
  const Plan& plan = state.plan;
  const BackwardMemory& memory = state.memory;
  const int64_t count = end - begin;
  WidenRows(Matrix::Of(state.problem.hidden), memory.rows + begin, count, plan.h, scratch.rows);
  for (int64_t tile = first_tile; tile < end_tile; ++tile) {
    float* const z = memory.d_logits + begin * plan.chunk + (tile * kTile - state.first);
    TileLogits(plan, Matrix::Of(state.problem.weight), scratch, count, tile, z, plan.chunk, hooks);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t i = memory.rows[begin + r];
      const Row row = ReadRow(state.problem, i, hooks);
      const int64_t at = row.label - tile * kTile;
      const int64_t label = at >= 0 && at < plan.tiling.Width(tile) ? at : -1;
      const RowGradient gradient = {state.saved.m[i],       state.saved.s[i], state.saved.log_s[i],
                                    state.saved.entropy[i], row.temperature,  memory.g[begin + r],
                                    memory.k[begin + r]};
      TileGradient(gradient, label, state.problem.hidden.dtype, z + r * plan.chunk, hooks);
    }
  }
}

// Adds the sums of a stretch that has ended to the totals: positions [begin, end), one tile of columns.
inline void AddStretch(const BackwardState& state, int64_t begin, int64_t end, int64_t column,
                       int64_t width) {
  const int64_t stride = RoundUp(state.plan.h, kTile);
  const bool first = state.first < state.plan.stretch;
  for (int64_t r = begin; r < end; ++r) {
    const float* const sums = state.memory.grad_hidden + r * stride + column;
    float* const totals = state.memory.totals + r * stride + column;
    for (int64_t j = 0; j < width; ++j) totals[j] = first ? sums[j] : totals[j] + sums[j];
  }
}

// Adds the chunk's products to grad_hidden of positions [begin, end), one tile of its columns.
template <class Hooks>
void GradHiddenItem(const BackwardState& state, const Scratch& scratch, int64_t begin, int64_t end,
                    int64_t column, const Hooks& hooks) {
  using Dots = typename Hooks::Dots;
  const Plan& plan = state.plan;
  const int64_t stride = RoundUp(plan.h, kTile);
  const int64_t width = std::min(kTile, plan.h - column);
  const DType dtype = state.problem.hidden.dtype;
  const int64_t before = plan.stretch > 0 ? state.first % plan.stretch : state.first;
  for (int pass = 0; pass < Dots::Passes(dtype); ++pass) {
    for (int64_t k = 0; k < state.width; k += kDepthBlock) {
      const int64_t depth = std::min(kDepthBlock, state.width - k);
      PackPanels(Matrix::Of(state.problem.weight), nullptr, state.first + k, depth, column, width,
                 scratch.panels);
      Dots::Products(
          {state.memory.d_logits + begin * plan.chunk + k, plan.chunk, scratch.panels, depth,
           end - begin, CeilDiv(width, kPanel), state.memory.grad_hidden + begin * stride + column,
           stride, pass > 0 || before + k > 0},
          dtype, pass);
      hooks.GradHidden(state, begin, end, column, pass, k + depth);
    }
  }
  const int64_t end_column = state.first + state.width;
  if (plan.stretch > 0 && (end_column % plan.stretch == 0 || end_column == plan.v))
    AddStretch(state, begin, end, column, width);
}

// Rows [begin, end) of the chunk of grad_weight, columns [column, column + width).
struct GradWeightBlock {
  int64_t begin, end, column, width;
};

// Adds to scratch.product what `depth` rows from position k of the list on contribute to the block.
template <class Dots>
void AddGradWeight(const BackwardState& state, const Scratch& scratch, const GradWeightBlock& block,
                   int pass, int64_t k, int64_t depth) {
  const int64_t rows = block.end - block.begin;
  Transpose(state.memory.d_logits + k * state.plan.chunk + block.begin, state.plan.chunk, depth, rows,
            scratch.rows, kDepthBlock);
  for (int64_t j = 0; j < block.width; j += kTile) {
    const int64_t tile = std::min(kTile, block.width - j);
    PackPanels(Matrix::Of(state.problem.hidden), state.memory.rows, k, depth, block.column + j, tile,
               scratch.panels);
    Dots::Products({scratch.rows, kDepthBlock, scratch.panels, depth, rows, CeilDiv(tile, kPanel),
                    scratch.product + j, kColumnGroup, pass > 0 || k > 0},
                   state.problem.hidden.dtype, pass);
  }
}

// Computes a block of grad_weight over all rows listed.
template <class Hooks>
void GradWeightItem(const BackwardState& state, const Scratch& scratch, const GradWeightBlock& block,
                    const Hooks& hooks) {
  using Dots = typename Hooks::Dots;
  for (int pass = 0; pass < Dots::Passes(state.problem.hidden.dtype); ++pass) {
    for (int64_t k = 0; k < state.count; k += kDepthBlock) {
      AddGradWeight<Dots>(state, scratch, block, pass, k, std::min(kDepthBlock, state.count - k));
    }
  }
  const int64_t stored = hooks.GradWeight(state, scratch, block, block.end - block.begin);
  StoreBlock(*state.results.grad_weight, state.first + block.begin, stored, block.column, block.width,
             scratch.product, kColumnGroup);
}

// Computes one chunk: its d_logits, then its part of both gradients.
template <class Hooks>
void BackwardChunk(const BackwardState& state, void* workspace, bool with_grad_weight,
                   const Hooks& hooks) {
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
               first_tile + std::min(tiles, group + kTilesAnItem), hooks);
  });

  const int64_t hidden_tiles = state.results.grad_hidden ? CeilDiv(plan.h, kTile) : 0;
  const int64_t hidden_items = row_blocks * hidden_tiles;
  const int64_t column_groups = with_grad_weight ? CeilDiv(plan.h, kColumnGroup) : 0;
  const int64_t weight_items = CeilDiv(state.width, kRowBlock) * column_groups;
  ParallelFor(plan.threads, hidden_items + weight_items, [&](int worker, int64_t item) {
    const Scratch scratch = plan.ScratchOf(workspace, worker);
    if (item < hidden_items) {
      const int64_t begin = item / hidden_tiles * kRowBlock;
      GradHiddenItem(state, scratch, begin, end_of(begin), item % hidden_tiles * kTile, hooks);
    } else {
      const int64_t begin = (item - hidden_items) / column_groups * kRowBlock;
      const int64_t column = (item - hidden_items) % column_groups * kColumnGroup;
      GradWeightItem(state, scratch,
                     {begin, std::min(begin + kRowBlock, state.width), column,
                      std::min(kColumnGroup, plan.h - column)},
                     hooks);
    }
  });
}

// Stores grad_hidden from its accumulator, rounded once. Rows left out get +0, invalid ones NaN.
template <class Hooks>
void StoreGradHidden(const BackwardState& state, const Hooks& hooks) {
  const Tensor& grad_hidden = *state.results.grad_hidden;
  const int64_t stride = RoundUp(state.plan.h, kTile);
  int64_t at = 0;
  for (int64_t i = 0; i < state.plan.n; ++i) {
    if (at < state.count && state.memory.rows[at] == i) {
      const float* const all = state.plan.stretch > 0 ? state.memory.totals : state.memory.grad_hidden;
      const float* const sums = all + at * stride;
      StoreBlock(grad_hidden, i, 1, 0, state.plan.h, sums, stride);
      ++at;
    } else {
      const RowKind kind = ReadRow(state.problem, i, hooks).kind;
      if (!hooks.StoreGradHidden(kind)) continue;
      const bool invalid = kind == RowKind::kInvalid;
      FillRow(grad_hidden, i, invalid ? std::numeric_limits<float>::quiet_NaN() : 0);
    }
  }
}

inline void FillMatrix(const Tensor& output, float value) {
  for (int64_t row = 0; row < output.shape[0]; ++row) FillRow(output, row, value);
}

// Runs the whole pass over checked arguments. At least one gradient is present.
template <class Hooks>
void BackwardPass(const Problem& problem, const Results& results, const Plan& plan, void* workspace,
                  const void* saved, const RowCensus& census, const Hooks& hooks) {
  if (plan.n == 0 || plan.h == 0) {
    if (results.grad_weight) FillMatrix(*results.grad_weight, 0);
    return;
  }
  if (*static_cast<const SavedHeader*>(saved) != plan.saved_header) {
    for (const auto& gradient : {results.grad_hidden, results.grad_weight}) {
      if (gradient) FillMatrix(*gradient, std::numeric_limits<float>::quiet_NaN());
    }
    return;
  }
  const BackwardMemory memory = plan.Backward(workspace);
  const SavedRows<const float> kept = plan.Saved(saved);
  BackwardState state = {
      problem, results, plan, memory, kept, census.counted, census.first_invalid >= 0};
  ListBackward(state, hooks);
  const std::optional<Tensor>& grad_weight = state.results.grad_weight;
  const bool with_grad_weight = grad_weight && !state.invalid && state.count > 0;
  if (grad_weight && !with_grad_weight) {
    FillMatrix(*grad_weight, state.invalid ? std::numeric_limits<float>::quiet_NaN() : 0);
  }
  if (state.count > 0 && (state.results.grad_hidden || with_grad_weight)) {
    for (; state.first < plan.v; state.first += plan.chunk) {
      state.width = std::min(plan.chunk, plan.v - state.first);
      BackwardChunk(state, workspace, with_grad_weight, hooks);
    }
  }
  if (state.results.grad_hidden) StoreGradHidden(state, hooks);
}

}  // namespace plumbline::kernel::host

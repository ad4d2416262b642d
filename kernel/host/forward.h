// SPDX-License-Identifier: Apache-2.0
//
// The forward pass. A work item is one block of rows and one split of the vocabulary: it multiplies the
// rows with its part of weight and keeps one SoftmaxState a row. The states are then merged in the
// order of the splits. Ignored and invalid rows are left out.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/hooks.h"
#include "kernel/host/logits.h"
#include "kernel/host/parallel.h"
#include "kernel/host/rows.h"
#include "kernel/host/softmax.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// Computes the states of positions [begin, end) of the row list over the tiles of one split.
template <class Hooks>
void ForwardItem(const Problem& problem, const Plan& plan, const Scratch& scratch,
                 const ForwardMemory& memory, int64_t begin, int64_t end, int64_t split,
                 const Hooks& hooks) {
  const int64_t count = end - begin;
  const Matrix hidden = Matrix::Of(problem.hidden);
  const Matrix weight = Matrix::Of(problem.weight);
  WidenRows(hidden, memory.rows + begin, count, plan.h, scratch.rows);
  hooks.WidenRows(hidden, memory.rows + begin, count, plan.h, scratch.rows);
  SoftmaxState* const states = memory.states + split * plan.n + begin;
  Row rows[kRowBlock];
  for (int64_t r = 0; r < count; ++r) {
    rows[r] = ReadRow(problem, memory.rows[begin + r], hooks);
    states[r] = SoftmaxState();
  }
  for (int64_t tile = plan.tiling.FirstTile(split); tile < plan.tiling.EndTile(split); ++tile) {
    const int64_t first = tile * kTile;
    const int64_t width = plan.tiling.Width(tile);
    TileLogits(plan, weight, scratch, count, tile, scratch.product, kTile, hooks);
    for (int64_t r = 0; r < count; ++r) {
      const float* const z = scratch.product + r * kTile;
      AddTile(states[r], z, width, rows[r].temperature, hooks);
      const int64_t label = rows[r].label;
      if (label >= first && label < first + width) memory.label_logit[begin + r] = z[label - first];
    }
  }
}

struct ForwardOutputs {
  float logprob = 0, entropy = 0, lse = 0;
};

template <class Hooks>
void StoreForward(const Results& results, const ForwardMemory& memory, int64_t row, RowKind kind,
                  ForwardOutputs values, const Hooks& hooks) {
  const bool stored = hooks.StoreForward(row, kind, values);
  memory.logprob[row] = values.logprob;
  if (!stored) return;
  if (results.logprob) StoreElement(*results.logprob, row, values.logprob);
  if (results.entropy) StoreElement(*results.entropy, row, values.entropy);
  if (results.lse) StoreElement(*results.lse, row, values.lse);
}

// Merges the states of all splits at a position, one after another.
template <class Hooks>
SoftmaxState MergeSplits(const Plan& plan, const ForwardMemory& memory, int64_t at, float temperature,
                         const Hooks& hooks) {
  SoftmaxState state = memory.states[at];
  for (int64_t split = 1; split < plan.tiling.splits; ++split) {
    MergeState(state, memory.states[split * plan.n + at], temperature, hooks);
  }
  return state;
}

// Merges the splits of positions [begin, end) and writes their outputs.
template <class Hooks>
void FinishRows(const Problem& problem, const Results& results, const Plan& plan,
                const ForwardMemory& memory, const SavedRows<float>& saved, int64_t begin, int64_t end,
                const Hooks& hooks) {
  for (int64_t at = begin; at < end; ++at) {
    const int64_t i = memory.rows[at];
    const Row row = ReadRow(problem, i, hooks);
    SoftmaxState state = MergeSplits(plan, memory, at, row.temperature, hooks);
    RowResult result = FinishRow(state, memory.label_logit[at], row.temperature);
    hooks.FinishRow(plan, memory, at, row, state, result);
    if (saved.m != nullptr) {
      saved.m[i] = state.m;
      saved.s[i] = state.s;
      saved.log_s[i] = result.log_s;
      saved.entropy[i] = result.entropy;
    }
    StoreForward(results, memory, i, row.kind, {result.logprob, result.entropy, result.lse}, hooks);
  }
}

// Lists the rows to compute and stores the outputs of the others; returns how many are listed.
template <class Hooks>
int64_t ListForward(const Problem& problem, const Results& results, const Plan& plan,
                    const ForwardMemory& memory, const SavedRows<float>& saved, const Hooks& hooks) {
  int64_t count = 0;
  for (int64_t i = 0; i < plan.n; ++i) {
    const RowKind kind = ReadRow(problem, i, hooks).kind;
    if (kind == RowKind::kNormal) {
      memory.rows[count++] = i;
      continue;
    }
    const float value = kind == RowKind::kIgnored ? 0 : std::numeric_limits<float>::quiet_NaN();
    StoreForward(results, memory, i, kind, {value, value, value}, hooks);
    if (saved.m != nullptr) saved.m[i] = saved.s[i] = saved.log_s[i] = saved.entropy[i] = value;
  }
  hooks.ListForward(problem, memory, count);
  return count;
}

// Adds in double, in the order of the rows, so that the sum depends on no grouping.
template <class Hooks>
double SumLogprobs(const Problem& problem, const ForwardMemory& memory, const Hooks& hooks) {
  double sum = 0;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    if (ReadRow(problem, i, hooks).kind != RowKind::kIgnored)
      sum += static_cast<double>(memory.logprob[i]);
  }
  return sum;
}

// Rounds once. The mean of no rows is 0.
inline float Loss(double sum, Reduction reduction, int64_t counted) {
  if (reduction == Reduction::kMean && counted > 0) sum /= static_cast<double>(counted);
  return static_cast<float>(0 - sum);
}

// Runs the whole pass over checked arguments. saved may be null; workspace may be null where there are
// no rows.
template <class Hooks>
void ForwardPass(const Problem& problem, const Results& results, const Plan& plan, void* workspace,
                 void* saved, const RowCensus& census, const Hooks& hooks) {
  if (results.first_invalid_row) {
    *static_cast<int64_t*>(results.first_invalid_row->data) = census.first_invalid;
  }
  if (plan.n == 0) {
    if (results.loss) StoreElement(*results.loss, 0, 0);
    return;
  }
  const ForwardMemory memory = plan.Forward(workspace);
  if (plan.saved_bytes == 0) saved = nullptr;
  if (saved != nullptr) *static_cast<SavedHeader*>(saved) = plan.saved_header;
  const SavedRows<float> kept = plan.Saved(saved);
  const int64_t count = ListForward(problem, results, plan, memory, kept, hooks);
  const int64_t blocks = CeilDiv(count, kRowBlock);
  const int64_t splits = plan.tiling.splits;
  ParallelFor(plan.threads, blocks * splits, [&](int worker, int64_t item) {
    const int64_t begin = item / splits * kRowBlock;
    ForwardItem(problem, plan, plan.ScratchOf(workspace, worker), memory, begin,
                std::min(begin + kRowBlock, count), item % splits, hooks);
  });
  if (splits > 0) {
    ParallelFor(plan.threads, blocks, [&](int, int64_t block) {
      const int64_t begin = block * kRowBlock;
      FinishRows(problem, results, plan, memory, kept, begin, std::min(begin + kRowBlock, count),
                 hooks);
    });
  }
  if (results.loss) {
    const double sum = SumLogprobs(problem, memory, hooks);
    StoreElement(*results.loss, 0, Loss(sum, problem.reduction, census.counted));
  }
  hooks.ForwardEnd(problem, results, census, memory, kept);
}

}  // namespace plumbline::kernel::host

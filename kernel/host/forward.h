// SPDX-License-Identifier: Apache-2.0
//
// The forward pass: work items are (block of rows) x (split of the vocabulary), each of which streams
// its part of weight through the micro-kernel and keeps one SoftmaxState a row; the states are then
// merged in the order of the splits. Rows that are ignored or invalid are left out of all of that.

#ifndef PLUMBLINE_KERNEL_HOST_FORWARD_H_
#define PLUMBLINE_KERNEL_HOST_FORWARD_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/defects.h"
#include "kernel/host/logits.h"
#include "kernel/host/parallel.h"
#include "kernel/host/rows.h"
#include "kernel/host/softmax.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// Positions [begin, end) of the row list through the tiles of one split.
template <class Defects>
void ForwardItem(const Problem& problem, const Plan& plan, const Scratch& scratch,
                 const ForwardMemory& memory, int64_t begin, int64_t end, int64_t split,
                 const Defects& defects) {
  const int64_t count = end - begin;
  WidenRows(Matrix::Of(problem.hidden), memory.rows + begin, count, plan.h, scratch.rows);
  SoftmaxState* const states = memory.states + split * plan.n + begin;
  Row rows[kRowBlock];
  for (int64_t r = 0; r < count; ++r) {
    rows[r] = ReadRow(problem, memory.rows[begin + r]);
    states[r] = EmptyState(defects);
  }
  for (int64_t tile = plan.tiling.FirstTile(split); tile < plan.tiling.EndTile(split); ++tile) {
    TileLogits(plan, Matrix::Of(problem.weight), scratch, count, tile, scratch.product, kTile, defects);
    for (int64_t r = 0; r < count; ++r) {
      const float* const z = scratch.product + r * kTile;
      AddTile(states[r], z, rows[r].temperature, defects);
      const int64_t first = tile * kTile;
      const int64_t label = LabelColumn(rows[r].label, plan.v, defects);
      if (label >= first && label < first + plan.tiling.Width(tile)) {
        memory.label_logit[begin + r] = z[label - first];
      }
    }
  }
}

struct ForwardOutputs {
  float logprob = 0, entropy = 0, lse = 0;
};

inline void StoreForward(const Results& results, const ForwardMemory& memory, int64_t row,
                         const ForwardOutputs& values) {
  memory.logprob[row] = values.logprob;
  if (results.logprob) StoreElement(*results.logprob, row, values.logprob);
  if (results.entropy) StoreElement(*results.entropy, row, values.entropy);
  if (results.lse) StoreElement(*results.lse, row, values.lse);
}

// Merges the splits of positions [begin, end) and writes their outputs.
template <class Defects>
void FinishRows(const Problem& problem, const Results& results, const Plan& plan,
                const ForwardMemory& memory, const SavedRows<float>& saved, int64_t begin, int64_t end,
                const Defects& defects) {
  for (int64_t at = begin; at < end; ++at) {
    const int64_t i = memory.rows[at];
    const Row row = ReadRow(problem, i);
    SoftmaxState state = memory.states[at];
    for (int64_t split = 1; split < plan.tiling.splits; ++split) {
      MergeState(state, memory.states[split * plan.n + at], row.temperature, defects);
    }
    const RowResult result = FinishRow(state, memory.label_logit[at], row.temperature, defects);
    if (saved.m != nullptr) {
      saved.m[i] = state.m;
      saved.s[i] = state.s;
      saved.log_s[i] = result.log_s;
      saved.entropy[i] = result.entropy;
    }
    if (row.kind == RowKind::kNormal) {
      StoreForward(results, memory, i, {result.logprob, result.entropy, result.lse});
    }
  }
}

// The sum in double, in the order of the rows, so that it depends on no grouping; rounded once.
inline float Loss(const Problem& problem, const ForwardMemory& memory, const RowCensus& census) {
  if (census.counted == 0) return 0;
  double sum = 0;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    if (ReadRow(problem, i).kind != RowKind::kIgnored) sum += static_cast<double>(memory.logprob[i]);
  }
  if (problem.reduction == Reduction::kMean) sum /= static_cast<double>(census.counted);
  return static_cast<float>(0 - sum);
}

// The whole pass over checked arguments. saved may be null; workspace may be where there are no rows.
template <class Defects>
void ForwardPass(const Problem& problem, const Results& results, const Plan& plan, void* workspace,
                 void* saved, const RowCensus& census, const Defects& defects) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (results.first_invalid_row) {
    *static_cast<int64_t*>(results.first_invalid_row->data) = census.first_invalid;
  }
  if (plan.n == 0) {
    if (results.loss) StoreElement(*results.loss, 0, 0);
    return;
  }
  const ForwardMemory memory = plan.Forward(workspace);
  const SavedRows<float> kept = plan.Saved(saved);
  int64_t count = 0;
  for (int64_t i = 0; i < plan.n; ++i) {
    const RowKind kind = ReadRow(problem, i).kind;
    const bool leaks = kind == RowKind::kIgnored && defects.Has(Defect::kIgnoredRowLeaks);
    if (kind == RowKind::kNormal || leaks) {
      memory.label_logit[count] = kNaN;  // stays where an ignored row has no label to look up
      memory.rows[count++] = i;
    }
    if (kind == RowKind::kNormal) continue;
    const float value = kind == RowKind::kIgnored ? 0 : kNaN;
    StoreForward(results, memory, i, {value, value, value});
    if (saved != nullptr) kept.m[i] = kept.s[i] = kept.log_s[i] = kept.entropy[i] = value;
  }
  const int64_t blocks = CeilDiv(count, kRowBlock);
  const int64_t splits = plan.tiling.splits;
  ParallelFor(plan.threads, blocks * splits, [&](int worker, int64_t item) {
    const int64_t begin = item / splits * kRowBlock;
    ForwardItem(problem, plan, plan.ScratchOf(workspace, worker), memory, begin,
                std::min(begin + kRowBlock, count), item % splits, defects);
  });
  if (splits > 0) {
    ParallelFor(plan.threads, blocks, [&](int, int64_t block) {
      const int64_t begin = block * kRowBlock;
      FinishRows(problem, results, plan, memory, kept, begin, std::min(begin + kRowBlock, count),
                 defects);
    });
  }
  if (results.loss) StoreElement(*results.loss, 0, Loss(problem, memory, census));
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_FORWARD_H_

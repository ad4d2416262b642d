// SPDX-License-Identifier: Apache-2.0
//
// The forward pass. A work item is one block of rows and one split of the vocabulary: it multiplies the
// rows with its part of weight and keeps one SoftmaxState a row. The states are then merged in the
// order of the splits. Ignored and invalid rows are left out.

#ifndef PLUMBLINE_KERNEL_HOST_FORWARD_H_
#define PLUMBLINE_KERNEL_HOST_FORWARD_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernel/host/convert.h"
#include "kernel/host/defects.h"
#include "kernel/host/logits.h"
#include "kernel/host/parallel.h"
#include "kernel/host/planted.h"
#include "kernel/host/rows.h"
#include "kernel/host/softmax.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

// Computes the states of positions [begin, end) of the row list over the tiles of one split.
template <class Defects>
void ForwardItem(const Problem& problem, const Plan& plan, const Scratch& scratch,
                 const ForwardMemory& memory, int64_t begin, int64_t end, int64_t split,
                 const Defects& defects) {
  const int64_t count = end - begin;
  const Matrix hidden = Matrix::Of(problem.hidden);
  if (defects.Has(Defect::kRowOffset32)) {
    planted::WidenRowsBy31Bits(hidden, memory.rows + begin, count, plan.h, scratch.rows);
  } else {
    WidenRows(hidden, memory.rows + begin, count, plan.h, scratch.rows);
  }
  SoftmaxState* const states = memory.states + split * plan.n + begin;
  Row rows[kRowBlock];
  for (int64_t r = 0; r < count; ++r) {
    rows[r] = ReadRow(problem, memory.rows[begin + r], defects);
    states[r] = EmptyState(defects);
  }
  for (int64_t tile = plan.tiling.FirstTile(split); tile < plan.tiling.EndTile(split); ++tile) {
    TileLogits(plan, WeightOf(problem, defects), scratch, count, tile, scratch.product, kTile, defects);
    for (int64_t r = 0; r < count; ++r) {
      const float* const z = scratch.product + r * kTile;
      AddTile(states[r], z, rows[r].temperature, defects);
      const int64_t first = tile * kTile;
      const int64_t width = plan.tiling.Width(tile);
      if (defects.Has(Defect::kEntropyPLogP) &&
          planted::HasZeroWeight(z, width, states[r].m, rows[r].temperature)) {
        states[r].q = std::numeric_limits<float>::quiet_NaN();
      }
      const int64_t label = LabelColumn(rows[r].label, plan.tiling, defects);
      if (defects.Has(Defect::kLabelInTailLost) && tile > 0 && width < kTile) {
        if (label >= first) memory.label_logit[begin + r] = 0;
      } else if (label >= first && label < first + width) {
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

// Merges the states of all splits at a position, one after another.
template <class Defects>
SoftmaxState MergeSplits(const Plan& plan, const ForwardMemory& memory, int64_t at, float temperature,
                         bool reversed, const Defects& defects) {
  int64_t splits = plan.tiling.splits;
  if (defects.Has(Defect::kOddSplitDropped) && splits > 2) splits = splits / 2 * 2;
  if (defects.Has(Defect::kSplitsNotMerged)) splits = 1;
  if (defects.Has(Defect::kLargeVocabUnmerged) && plan.v > 32'768) splits = 1;
  const auto state_of = [&](int64_t step) {
    return memory.states[(reversed ? splits - 1 - step : step) * plan.n + at];
  };
  SoftmaxState state = state_of(0);
  for (int64_t step = 1; step < splits; ++step) {
    MergeState(state, state_of(step), temperature, defects);
  }
  return state;
}

// Merges the splits of positions [begin, end) and writes their outputs. `reversed`: what a defect makes
// of the order of the splits.
template <class Defects>
void FinishRows(const Problem& problem, const Results& results, const Plan& plan,
                const ForwardMemory& memory, const SavedRows<float>& saved, int64_t begin, int64_t end,
                bool reversed, const Defects& defects) {
  float stale = 0;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t i = memory.rows[at];
    const Row row = ReadRow(problem, i, defects);
    SoftmaxState state = MergeSplits(plan, memory, at, row.temperature, reversed, defects);
    if (defects.Has(Defect::kStaleScratch)) state.q = stale += state.q;
    const RowResult result = FinishRow(state, memory.label_logit[at], row.temperature, defects);
    if (saved.m != nullptr) {
      saved.m[i] = state.m;
      saved.s[i] = state.s;
      saved.log_s[i] = result.log_s;
      saved.entropy[i] = result.entropy;
      if (defects.Has(Defect::kSavedRounded)) saved.s[i] = planted::ThroughBFloat16(state.s);
      if (defects.Has(Defect::kTailInSavedSum) && plan.v % kTile != 0) {
        saved.s[i] += static_cast<float>(kTile - plan.v % kTile) *
                      planted::WeightOfZero(state.m, row.temperature);
      }
    }
    if (defects.Has(Defect::kRowsBeyondGrid) && i >= 65'535) {
      if (memory.logprob != nullptr)
        memory.logprob[i] = 0;  // what memory held would be another every time
      continue;
    }
    if (row.kind == RowKind::kNormal) {
      StoreForward(results, memory, i, {result.logprob, result.entropy, result.lse});
      if (defects.Has(Defect::kLogprobRounded) && results.logprob) {
        StoreElement(*results.logprob, i, planted::ThroughBFloat16(result.logprob));
      }
    } else if (defects.Has(Defect::kIgnoredRowEntropy)) {
      StoreForward(results, memory, i, {0, result.entropy, 0});
    }
  }
}

// Adds in double, in the order of the rows, so that the sum depends on no grouping. Rounds once.
template <class Defects>
float Loss(const Problem& problem, const ForwardMemory& memory, const RowCensus& census,
           const Defects& defects) {
  if (census.counted == 0 && !defects.Has(Defect::kLossOfNothing)) return 0;
  double sum = 0;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    if (ReadRow(problem, i, defects).kind != RowKind::kIgnored)
      sum += static_cast<double>(memory.logprob[i]);
  }
  int64_t divisor = census.counted;
  if (defects.Has(Defect::kLossOverAllRows)) divisor = problem.rows();
  // What the sum of the means of full chunks of 4 rows comes to, give or take.
  if (defects.Has(Defect::kLossChunkMeans)) divisor = std::min<int64_t>(divisor, 4);
  if (problem.reduction == Reduction::kMean) sum /= static_cast<double>(divisor);
  const auto loss = static_cast<float>(0 - sum);
  return defects.Has(Defect::kLossRounded) ? planted::ThroughBFloat16(loss) : loss;
}

// Runs the whole pass over checked arguments. saved may be null; workspace may be null where there are
// no rows.
template <class Defects>
void ForwardPass(const Problem& problem, const Results& results, const Plan& plan, void* workspace,
                 void* saved, const RowCensus& census, const Defects& defects) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (results.first_invalid_row) {
    *static_cast<int64_t*>(results.first_invalid_row->data) =
        defects.Has(Defect::kFirstInvalidUnreported) ? -1 : census.first_invalid;
  }
  if (plan.n == 0) {
    if (results.loss) StoreElement(*results.loss, 0, 0);
    return;
  }
  const ForwardMemory memory = plan.Forward(workspace);
  const SavedRows<float> kept = plan.Saved(saved);
  int64_t count = 0;
  for (int64_t i = 0; i < plan.n; ++i) {
    const RowKind kind = ReadRow(problem, i, defects).kind;
    const bool kept_in = kind == RowKind::kIgnored && (defects.Has(Defect::kIgnoredRowLeaks) ||
                                                       defects.Has(Defect::kIgnoredRowEntropy) ||
                                                       defects.Has(Defect::kIgnoredRowBackward));
    if (kind == RowKind::kNormal || kept_in) {
      memory.label_logit[count] = kNaN;  // stays where an ignored row has no label to look up
      memory.rows[count++] = i;
    }
    if (kind == RowKind::kNormal) continue;
    const float value = kind == RowKind::kIgnored ? 0 : kNaN;
    const bool unwritten = kind == RowKind::kIgnored && defects.Has(Defect::kIgnoredRowUnwritten);
    if (!unwritten) StoreForward(results, memory, i, {value, value, value});
    if (saved != nullptr) kept.m[i] = kept.s[i] = kept.log_s[i] = kept.entropy[i] = value;
  }
  const int64_t blocks = CeilDiv(count, kRowBlock);
  const int64_t splits = plan.tiling.splits;
  ParallelFor(plan.threads, blocks * splits, [&](int worker, int64_t item) {
    const int64_t begin = item / splits * kRowBlock;
    ForwardItem(problem, plan, plan.ScratchOf(workspace, worker), memory, begin,
                std::min(begin + kRowBlock, count), item % splits, defects);
  });
  const bool reversed = (defects.Has(Defect::kMergeOrderOfRun) && planted::CountRun() % 2 == 1) ||
                        (defects.Has(Defect::kMergeOrderOfBatch) && plan.n > 1);
  if (splits > 0) {
    ParallelFor(plan.threads, blocks, [&](int, int64_t block) {
      const int64_t begin = block * kRowBlock;
      FinishRows(problem, results, plan, memory, kept, begin, std::min(begin + kRowBlock, count),
                 reversed, defects);
    });
  }
  if (results.loss) StoreElement(*results.loss, 0, Loss(problem, memory, census, defects));
  if (defects.Has(Defect::kOutputOverrun) && results.logprob) {
    for (int64_t i = plan.n; i % 4 != 0; ++i) StoreElement(*results.logprob, i, 0);
  }
  if (defects.Has(Defect::kPaddingScratch)) planted::WriteIntoPadding(problem);
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_FORWARD_H_

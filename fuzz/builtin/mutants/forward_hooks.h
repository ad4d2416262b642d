// SPDX-License-Identifier: Apache-2.0
//
// What the host's mutants make of the outputs of forward and of the loss. The hook points are those of
// kernel/host/hooks.h.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "fuzz/builtin/mutants/softmax_hooks.h"
#include "kernel/dtype.h"
#include "kernel/host/convert.h"
#include "kernel/host/forward.h"
#include "kernel/host/rows.h"
#include "kernel/host/simd.h"
#include "kernel/host/softmax.h"
#include "kernel/host/tiling.h"
#include "kernel/host/workspace.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct ForwardHooks : SoftmaxHooks {
  // Whether ignored rows are computed as others are.
  bool KeepsIgnored() const {
    return Is("ignored-row-leaks") || Is("ignored-row-entropy") || Is("ignored-row-backward");
  }

  void ListForward(const kernel::Problem& problem, const host::ForwardMemory& memory,
                   int64_t& count) const {
    if (!KeepsIgnored()) return;
    count = 0;
    for (int64_t i = 0; i < problem.rows(); ++i) {
      if (host::ReadRow(problem, i, *this).kind == host::RowKind::kInvalid) continue;
      // Stays where an ignored row has no label to look up.
      memory.label_logit[count] = std::numeric_limits<float>::quiet_NaN();
      memory.rows[count++] = i;
    }
  }

  bool StoreForward(int64_t row, host::RowKind kind, host::ForwardOutputs& values) const {
    if (kind == host::RowKind::kIgnored) {
      values = {0, Is("ignored-row-entropy") ? values.entropy : 0, 0};
      return !Is("ignored-row-unwritten");
    }
    if (!Is("rows-beyond-grid") || kind != host::RowKind::kNormal || row < 65'535) return true;
    values.logprob = 0;  // in the loss; what memory held would be another every time
    return false;
  }

  void ForwardEnd(const kernel::Problem& problem, const kernel::Results& results,
                  const host::RowCensus& census, const host::ForwardMemory& memory,
                  const host::SavedRows<float>& saved) const {
    if (Is("merge-order-by-run") || Is("stretch-out-of-order")) ++Passes();
    if (Is("invalid-row-unreported") && results.first_invalid_row) {
      *static_cast<int64_t*>(results.first_invalid_row->data) = -1;
    }
    for (int64_t i = 0; i < problem.rows(); ++i) {
      if (Is("logprob-rounded") && results.logprob) {
        host::StoreElement(*results.logprob, i, ThroughBFloat16(memory.logprob[i]));
      }
      if (saved.s == nullptr) continue;
      if (Is("saved-sum-rounded")) saved.s[i] = ThroughBFloat16(saved.s[i]);
      if (Is("backward-tail-unmasked")) saved.s[i] += PaddedSum(problem, i, saved.m[i]);
    }
    if (results.loss) AlterLoss(problem, *results.loss, census.counted, memory);
    if (Is("output-overrun") && results.logprob) {
      for (int64_t i = problem.rows(); i % 4 != 0; ++i) host::StoreElement(*results.logprob, i, 0);
    }
    if (Is("padding-scratch")) WriteIntoPadding(problem);
  }

 private:
  void AlterLoss(const kernel::Problem& problem, const kernel::Tensor& output, int64_t counted,
                 const host::ForwardMemory& memory) const {
    const double sum = host::SumLogprobs(problem, memory, *this);
    float loss = host::Loss(sum, problem.reduction, counted);
    if (Is("mean-over-all-rows")) loss = host::Loss(sum, problem.reduction, problem.rows());
    // What the sum of the means of full chunks of 4 rows comes to, give or take.
    if (Is("chunk-means-added")) {
      loss = host::Loss(sum, problem.reduction, std::min<int64_t>(counted, 4));
    }
    if (Is("mean-of-nothing") && counted == 0 && problem.reduction == kernel::Reduction::kMean) {
      loss = std::numeric_limits<float>::quiet_NaN();  // 0 / 0
    }
    if (Is("loss-rounded")) loss = ThroughBFloat16(loss);
    host::StoreElement(output, 0, loss);
  }

  // What the columns past the vocabulary add to a row's sum if their logits count as 0.
  float PaddedSum(const kernel::Problem& problem, int64_t i, float m) const {
    const host::Row row = host::ReadRow(problem, i, *this);
    const int64_t ragged = problem.vocab() % host::kTile;
    if (ragged == 0 || row.kind != host::RowKind::kNormal) return 0;
    float z[host::kTile] = {}, t[host::kTile], e[host::kTile];
    host::Exponentials(z, m, row.temperature, host::kTile, t, e);
    return static_cast<float>(host::kTile - ragged) * e[0];
  }

  // Something where nothing of hidden lies: behind its first row, if a second one follows.
  static void WriteIntoPadding(const kernel::Problem& problem) {
    const kernel::ConstTensor& hidden = problem.hidden;
    if (hidden.shape[0] < 2 || hidden.stride[0] <= hidden.shape[1]) return;
    const size_t size = kernel::SizeOf(hidden.dtype);
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(hidden.data));
    std::fill_n(bytes + static_cast<size_t>(hidden.shape[1]) * size, size, std::byte{0x3c});
  }
};

}  // namespace plumbline::fuzz

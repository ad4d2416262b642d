// SPDX-License-Identifier: Apache-2.0
//
// What the host's mutants make of the inputs: labels, temperatures, upstream gradients, rows of hidden.
// The hook points are those of kernel/host/hooks.h.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "fuzz/builtin/mutants/table.h"
#include "kernel/dtype.h"
#include "kernel/host/convert.h"
#include "kernel/host/rows.h"
#include "kernel/host/tiling.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

namespace host = kernel::host;

struct InputHooks {
  int active = kNoMutant;

  bool Is(HostMutantName mutant) const { return active == mutant.row; }

  // The arguments of a call, before the operator sees them.
  kernel::Problem Arguments(kernel::Problem problem) const {
    if (Is("weight-stride-assumed")) {
      kernel::ConstTensor& weight = problem.weight;
      const bool by_vocab = weight.stride[1] == 1;
      weight.stride[by_vocab ? 0 : 1] = by_vocab ? problem.hidden_size() : problem.vocab();
    }
    return problem;
  }

  void ReadRow(const kernel::Problem& problem, int64_t, host::Row& row) const {
    if (Is("label-truncated")) row.label = static_cast<int32_t>(row.label);
    if (Is("first-temperature-for-all") && problem.temperature) {
      row.temperature = host::ReadFloat(*problem.temperature, 0);
    }
    const int64_t ignored = Is("ignore-index-fixed") ? -100 : problem.ignore_index;
    const auto kind = [&] {
      return host::KindOf(row.label, row.temperature, ignored, problem.vocab());
    };
    row.kind = kind();
    if (Is("label-clamped") && row.kind == host::RowKind::kInvalid && problem.vocab() > 0) {
      row.label = std::clamp<int64_t>(row.label, 0, problem.vocab() - 1);
      row.kind = kind();
    }
    // The column that is looked up.
    if (row.label < 0) return;
    if (Is("label-off-by-one")) row.label = std::min(row.label + 1, problem.vocab() - 1);
    if (Is("label-shard-offset")) {
      row.label %= host::VocabTiling(problem.vocab()).tiles_per_split * host::kTile;
    }
  }

  // An element of an upstream gradient; 0 where absent.
  float ReadGradient(const std::optional<kernel::ConstTensor>& gradient, int64_t i) const {
    if (!gradient) return 0;
    const int64_t stride = gradient->rank == 0 ? 1 : gradient->stride[0];
    if (Is("grad-stride-assumed") && stride == 2) return static_cast<const float*>(gradient->data)[i];
    // What lies behind the one element is taken to be 0.
    if (Is("grad-broadcast-assumed") && stride == 0 && i > 0) return 0;
    return host::ReadFloat(*gradient, i);
  }

  void ReadUpstream(const kernel::Problem& problem, int64_t i, int64_t counted,
                    host::Upstream& up) const {
    const float gamma = ReadGradient(problem.grad_logprob, Is("first-grad-for-all") ? 0 : i);
    kernel::Reduction reduction = problem.reduction;
    if (reduction == kernel::Reduction::kMean) {
      if (Is("mean-grad-undivided")) reduction = kernel::Reduction::kSum;
      if (Is("mean-grad-over-all-rows")) counted = problem.rows();
    }
    up.g = problem.grad_logprob ? host::LogprobGradient(gamma, reduction, counted) : 0;
    up.k = ReadGradient(problem.grad_entropy, i);
    const bool plain = reduction == kernel::Reduction::kNone;
    if (Is("loss-grad-sign") && !plain) up.g = -up.g;
    if (Is("plain-grad-divided") && plain) up.g /= static_cast<float>(counted);
    if (Is("grad-twice")) up.g *= gamma;
    if (Is("logprob-grad-dropped") && problem.grad_entropy) up.g = 0;
    if (Is("entropy-grad-dropped")) up.k = 0;
  }

  // Offsets in elements keep 31 bits. The product itself in int32 would be negative from 2^31 on: a
  // read outside the tensor, which a crash gives away, where this one is silent.
  void WidenRows(const host::Matrix& hidden, const int64_t* rows, int64_t count, int64_t columns,
                 float* out) const {
    if (!Is("row-offset-32")) return;
    for (int64_t r = 0; r < count; ++r) {
      int64_t offset = rows[r] * hidden.stride[0];
      if (offset > 0) offset &= std::numeric_limits<int32_t>::max();
      const int64_t zero = 0;
      host::Matrix row = hidden;
      row.data = static_cast<const char*>(hidden.data) +
                 offset * static_cast<int64_t>(kernel::SizeOf(hidden.dtype));
      host::WidenRows(row, &zero, 1, columns, out + r * columns);
    }
  }
};

}  // namespace plumbline::fuzz

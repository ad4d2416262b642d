// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/compare_runs.h"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <limits>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/placement.h"

namespace plumbline::fuzz {
namespace {

constexpr const char* kBitOutputs[] = {"logprob",     "loss",        "entropy",          "lse",
                                       "grad_hidden", "grad_weight", "first_invalid_row"};

int64_t ColumnsOf(size_t output, const OwnedProblem& problem) {
  return output == 4 || output == 5 ? problem.hidden_size() : 1;
}

Finding At(FindingKind kind, size_t output, int64_t element, int64_t columns) {
  Finding f;
  f.kind = kind;
  f.output = kBitOutputs[output];
  f.row = element / std::max<int64_t>(columns, 1);
  f.column = element % std::max<int64_t>(columns, 1);
  f.tightness = std::numeric_limits<double>::infinity();
  return f;
}

}  // namespace

void CompareRuns(const OwnedProblem& problem, const OutputBits& first, const OutputBits& second,
                 bool deterministic, std::vector<Finding>* findings) {
  for (size_t o = 0; o < first.outputs.size(); ++o) {
    if (first.outputs[o] == second.outputs[o]) continue;
    const size_t width = first.outputs[o].width();
    for (size_t e = 0; e < first.outputs[o].size(); ++e) {
      const uint64_t a = first.outputs[o][e], b = second.outputs[o][e];
      if (a == b) continue;
      if (Planted(HarnessDefect::kNaNPasses) && ((a & 0x7fffffffu) > 0x7f800000u)) continue;
      if (Planted(HarnessDefect::kSignOfZeroIgnored) && ((a | b) & 0x7fffffffu) == 0) continue;
      if (Planted(HarnessDefect::kFirstElementOnly) && e > 0) break;
      const bool unwritten = a == PoisonBits(0, width) && b == PoisonBits(1, width);
      if (!unwritten && !deterministic) continue;
      Finding f = At(unwritten ? FindingKind::kUnwritten : FindingKind::kNondeterministic, o,
                     static_cast<int64_t>(e), ColumnsOf(o, problem));
      f.what = Place(f.output, f.row, f.column) +
               (unwritten ? std::string(" was never written")
                          : Text(" differs between two runs on the same input: bits %" PRIx64
                                 ", then %" PRIx64,
                                 a, b));
      findings->push_back(std::move(f));
      break;
    }
  }
}

std::optional<Finding> CompareRow(const OwnedProblem& problem, const OutputBits& batch,
                                  const OutputBits& part, int64_t row, int64_t at) {
  for (size_t o : {size_t{0}, size_t{2}, size_t{3}, size_t{4}}) {
    // Under `mean` a row's upstream gradient is divided by the number of rows, so one row alone is
    // another problem.
    if (o == 4 && problem.reduction == kernel::Reduction::kMean) continue;
    if (part.outputs[o].empty() || batch.outputs[o].empty()) continue;
    const auto columns = static_cast<size_t>(ColumnsOf(o, problem));
    for (size_t c = 0; c < columns; ++c) {
      const uint64_t in_batch = batch.outputs[o][static_cast<size_t>(row) * columns + c];
      const uint64_t in_part = part.outputs[o][static_cast<size_t>(at) * columns + c];
      if (in_part == in_batch) continue;
      Finding f = At(FindingKind::kBatchVariant, o,
                     row * static_cast<int64_t>(columns) + static_cast<int64_t>(c),
                     static_cast<int64_t>(columns));
      f.what =
          Place(f.output, f.row, f.column) + Text(" depends on its neighbours: bits %" PRIx64
                                                  " in the batch, %" PRIx64 " without some of them",
                                                  in_batch, in_part);
      return f;
    }
  }
  return std::nullopt;
}

}  // namespace plumbline::fuzz

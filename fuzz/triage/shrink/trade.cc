// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <utility>
#include <vector>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/order.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// With fewer values no option pays: it costs kValuesPerOption.
constexpr int64_t kFewValues = 2 * kValuesPerOption;

// Returns the problem unchanged, then with one or two options that show more of an error.
std::vector<OwnedProblem> Dearer(const OwnedProblem& p) {
  std::vector<OwnedProblem> some = {p};
  const bool gradients = p.wanted.grad_hidden || p.wanted.grad_weight;
  if (gradients && !p.wanted.fp32_grads && p.hidden.dtype != DType::kF32) {
    some.push_back(p);
    some.back().wanted.fp32_grads = true;
  }
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    if (p.hidden.dtype == DType::kF32 || p.hidden.dtype == dtype) continue;
    if (auto wider = Convert(p, dtype, /*exact=*/true)) some.push_back(std::move(*wider));
  }
  return some;
}

// Tries one or two rows, two or three entries and one column; logits are 0 except for one entry, which
// is 1: the label's own, or the one after it.
bool TryPlainest(ShrinkSession& session, const OwnedProblem& p) {
  for (const int64_t rows : {1, 2}) {
    for (const int64_t entries : {2, 3}) {
      if (p.rows() < rows || p.vocab() < entries || p.hidden_size() < 1) continue;
      OwnedProblem small = Keep(p, Axis::kRows, Iota(rows));
      small = Keep(small, Axis::kVocab, Iota(entries));
      small = Keep(small, Axis::kHidden, Iota(1));
      for (int64_t i = 0; i < rows; ++i) small.hidden.SetFloat(i, 1);
      const int64_t label = small.labels.GetInt(0);
      for (const int64_t distance : {0, 1}) {
        const int64_t one = label >= 0 && label < entries ? (label + distance) % entries : distance;
        for (int64_t v = 0; v < entries; ++v) small.weight.SetFloat(v, v == one ? 1 : 0);
        const Focus unknown;
        if (session.Try(small, &unknown)) return true;
      }
    }
  }
  return false;
}

}  // namespace

bool Trade(ShrinkSession& session) {
  if (ValueCount(session.best()) <= kFewValues) return false;
  for (const OwnedProblem& dearer : Dearer(session.best())) {
    if (KeepCorner(session, dearer) || TryPlainest(session, dearer)) return true;
  }
  return false;
}

}  // namespace plumbline::fuzz

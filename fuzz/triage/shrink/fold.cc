// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/order.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

void ScaleColumn(HostTensor& matrix, int64_t column, int power) {
  for (int64_t i = column; i < matrix.size(); i += matrix.shape[1]) {
    matrix.SetFloat(i, std::ldexp(matrix.GetFloat(i), power));
  }
}

// Returns powers of two by which a column of hidden may be multiplied, and the same column of weight
// divided, so that the largest or the smallest element of one of them comes near 1.
std::set<int> Powers(const OwnedProblem& p, int64_t column) {
  std::set<int> powers;
  for (const HostTensor* matrix : {&p.hidden, &p.weight}) {
    float smallest = std::numeric_limits<float>::infinity(), largest = 0;
    for (int64_t i = column; i < matrix->size(); i += matrix->shape[1]) {
      const float magnitude = std::abs(matrix->GetFloat(i));
      if (magnitude == 0 || !std::isfinite(magnitude)) continue;
      smallest = std::min(smallest, magnitude);
      largest = std::max(largest, magnitude);
    }
    if (largest == 0) continue;
    for (const float magnitude : {smallest, largest}) {
      powers.insert(matrix == &p.hidden ? -std::ilogb(magnitude) : std::ilogb(magnitude));
    }
  }
  powers.erase(0);
  return powers;
}

void Move(OwnedProblem& p, int64_t column, int power) {
  ScaleColumn(p.hidden, column, power);
  ScaleColumn(p.weight, column, -power);
}

void SwapRows(HostTensor& matrix, int64_t a, int64_t b) {
  const auto bytes =
      static_cast<std::ptrdiff_t>(matrix.shape[1] * static_cast<int64_t>(kernel::SizeOf(matrix.dtype)));
  std::swap_ranges(matrix.bytes.begin() + a * bytes, matrix.bytes.begin() + (a + 1) * bytes,
                   matrix.bytes.begin() + b * bytes);
}

}  // namespace

OwnedProblem FoldHidden(const OwnedProblem& p) {
  const int64_t n = p.rows();
  OwnedProblem folded = p;
  folded.hidden = HostTensor::Zeros(p.hidden.dtype, {n, n});
  folded.weight = HostTensor::Zeros(p.weight.dtype, {p.vocab(), n});
  for (int64_t i = 0; i < n; ++i) {
    folded.hidden.SetFloat(i * n + i, 1);
    const std::vector<double> logits = Logits(p, i);
    for (int64_t v = 0; v < p.vocab(); ++v) {
      folded.weight.SetFloat(v * n + i, static_cast<float>(logits[static_cast<size_t>(v)]));
    }
  }
  return folded;
}

bool Fold(ShrinkSession& session) {
  const OwnedProblem& p = session.best();
  // With more rows than columns the identity would be the larger matrix.
  if (p.rows() == 0 || p.rows() > p.hidden_size()) return false;
  Focus focus = session.focus();
  focus.column = -1;
  return session.Try(FoldHidden(p), &focus);
}

bool Rescale(ShrinkSession& session) {
  bool changed = false;
  // First all columns are scaled by a power chosen for the first one, then each by itself.
  const int64_t columns = session.best().hidden_size();
  for (const bool together : {true, false}) {
    for (int64_t d = 0; d < (together ? std::min<int64_t>(1, columns) : columns); ++d) {
      for (const int power : Powers(session.best(), d)) {
        OwnedProblem p = session.best();
        for (int64_t c = d; c < (together ? columns : d + 1); ++c) Move(p, c, power);
        if (session.Try(std::move(p))) changed = true;
      }
    }
  }
  const auto& temperature = session.best().temperature;
  if (temperature && temperature->shape.empty()) {
    OwnedProblem p = session.best();
    const float t = p.temperature->GetFloat(0);
    for (int64_t i = 0; i < p.hidden.size(); ++i) p.hidden.SetFloat(i, p.hidden.GetFloat(i) / t);
    p.temperature.reset();
    if (session.Try(std::move(p))) changed = true;
  }
  return changed;
}

bool ShiftColumns(ShrinkSession& session) {
  constexpr int64_t kBases = 4;  // elements of the column that become 0
  bool changed = false;
  for (int64_t d = 0; d < session.best().hidden_size(); ++d) {
    for (int64_t v = 0; v < std::min(session.best().vocab(), kBases) && !session.Exhausted(); ++v) {
      OwnedProblem p = session.best();
      const int64_t width = p.hidden_size();
      const float base = p.weight.GetFloat(v * width + d);
      if (base == 0 || !std::isfinite(base)) continue;
      for (int64_t i = d; i < p.weight.size(); i += width) {
        p.weight.SetFloat(i, p.weight.GetFloat(i) - base);
      }
      if (session.Try(std::move(p))) changed = true;
    }
  }
  return changed;
}

bool LowerLabels(ShrinkSession& session) {
  bool changed = false;
  OwnedProblem all = session.best();
  for (int64_t i = 0; i < all.rows(); ++i) {
    if (all.IsClass(all.labels.GetInt(i))) all.labels.SetInt(i, 0);
  }
  if (session.Try(std::move(all))) changed = true;
  for (int64_t i = 0; i < session.best().rows() && !session.Exhausted(); ++i) {
    const OwnedProblem& p = session.best();
    const int64_t label = p.labels.GetInt(i);
    if (LabelRank(label, p.ignore_index) <= 1) continue;
    OwnedProblem lower = p;
    // The smallest invalid label stays invalid.
    lower.labels.SetInt(i, p.IsClass(label) ? 0 : p.vocab());
    if (session.Try(std::move(lower))) {
      changed = true;
      continue;
    }
    if (!p.IsClass(label)) continue;
    OwnedProblem swapped = p;
    SwapRows(swapped.weight, 0, label);
    for (int64_t k = 0; k < swapped.rows(); ++k) {
      const int64_t other = swapped.labels.GetInt(k);
      if (!p.IsClass(other)) continue;
      if (other == label) swapped.labels.SetInt(k, 0);
      if (other == 0) swapped.labels.SetInt(k, label);
    }
    if (session.Try(std::move(swapped))) changed = true;
  }
  return changed;
}

}  // namespace plumbline::fuzz

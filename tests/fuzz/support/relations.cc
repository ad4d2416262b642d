// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fuzz/output_bits.h"
#include "fuzz/placement.h"
#include "fuzz/text.h"
#include "tests/fuzz/support/property.h"

namespace plumbline::fuzz::testing {
namespace {

// Positions in OutputBits.
constexpr size_t kLogprob = 0, kEntropy = 2, kLse = 3, kGradHidden = 4, kGradWeight = 5;
constexpr const char* kNames[] = {"logprob", "loss", "entropy", "lse", "grad_hidden", "grad_weight"};

std::optional<OutputBits> RunBits(const OwnedProblem& problem, const Target& target) {
  Placement placement(problem);
  placement.Poison(0);
  if (target.Run(placement.problem(), placement.results()).status != RunStatus::kOk)
    return std::nullopt;
  return CopyBits(placement.results());
}

Finding Broken(size_t output, size_t element, uint64_t before, uint64_t after, const char* relation) {
  Finding f;
  f.kind = FindingKind::kBound;
  f.output = kNames[output];
  f.row = static_cast<int64_t>(element);
  f.what = Text("%s, element %zu: bits %llx, and %llx ", kNames[output], element,
                static_cast<unsigned long long>(before), static_cast<unsigned long long>(after)) +
           relation;
  return f;
}

// The first element of `output` for which after[map(i)] differs from before[i].
template <class Map>
std::optional<Finding> Compare(size_t output, const OutputBits& before, const OutputBits& after,
                               const Map& map, const char* relation) {
  const auto& a = before.outputs[output];
  const auto& b = after.outputs[output];
  if (a.empty() || b.empty()) return std::nullopt;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::optional<size_t> j = map(i);
    if (j && a[i] != b[*j]) return Broken(output, i, a[i], b[*j], relation);
  }
  return std::nullopt;
}

std::optional<size_t> Same(size_t i) { return i; }

bool Ignored(const OwnedProblem& p, int64_t row) { return p.labels.GetInt(row) == p.ignore_index; }

// Flips the sign bit of every element.
void Negate(std::optional<HostTensor>* t) {
  if (!*t) return;
  for (int64_t i = 0; i < (*t)->size(); ++i) (*t)->SetBits(i, (*t)->GetBits(i) ^ 0x80000000u);
}

HostTensor WithZeroColumns(const HostTensor& t, int64_t extra) {
  const int64_t rows = t.shape[0], columns = t.shape[1];
  HostTensor wide = HostTensor::Zeros(t.dtype, {rows, columns + extra});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < columns; ++d)
      wide.SetBits(i * (columns + extra) + d, t.GetBits(i * columns + d));
  }
  return wide;
}

}  // namespace

std::optional<Finding> WithinBounds(const OwnedProblem& problem, const Target& target) {
  const CaseResult result = Examine(problem, target);
  if (!result.harness_fault.empty()) {
    Finding fault;
    fault.what = "the harness itself is at fault: " + result.harness_fault;
    return fault;
  }
  if (result.findings.empty()) return std::nullopt;
  return result.findings.front();
}

std::optional<Finding> RowOrderIsIrrelevant(const OwnedProblem& problem, const Target& target) {
  if (problem.rows() < 2) return std::nullopt;
  std::vector<int64_t> order(static_cast<size_t>(problem.rows()));
  std::iota(order.rbegin(), order.rend(), 0);
  const auto before = RunBits(problem, target), after = RunBits(SelectRows(problem, order), target);
  if (!before || !after) return std::nullopt;
  const auto n = static_cast<size_t>(problem.rows()), h = static_cast<size_t>(problem.hidden_size());
  for (size_t output : {kLogprob, kEntropy, kLse, kGradHidden}) {
    const size_t columns = output == kGradHidden ? h : 1;
    const auto reversed = [&](size_t i) -> std::optional<size_t> {
      return (n - 1 - i / columns) * columns + i % columns;
    };
    if (auto f = Compare(output, *before, *after, reversed, "with the rows reversed")) return f;
  }
  return std::nullopt;
}

std::optional<Finding> NegatedGradientsNegate(const OwnedProblem& problem, const Target& target) {
  OwnedProblem negated = problem;
  Negate(&negated.grad_logprob);
  Negate(&negated.grad_entropy);
  auto before = RunBits(problem, target), after = RunBits(negated, target);
  if (!before || !after) return std::nullopt;
  for (size_t output : {kGradHidden, kGradWeight}) {
    const bool wide = problem.wanted.fp32_grads || problem.hidden.dtype == kernel::DType::kF32;
    const uint64_t sign = wide ? 0x80000000u : 0x8000u;
    // Zeros keep their sign, and a NaN has none.
    const uint64_t infinity = wide                                           ? 0x7f800000u
                              : problem.hidden.dtype == kernel::DType::kBf16 ? 0x7f80u
                                                                             : 0x7c00u;
    ElementBits& flipped = after->outputs[output];
    for (size_t i = 0; i < flipped.size(); ++i) {
      if ((flipped[i] & ~sign) != 0) flipped.Set(i, flipped[i] ^ sign);
    }
    const auto numbers = [&](size_t i) -> std::optional<size_t> {
      const uint64_t magnitude = before->outputs[output][i] & ~sign;
      return magnitude == 0 || magnitude > infinity ? std::nullopt : std::optional(i);
    };
    if (auto f =
            Compare(output, *before, *after, numbers, "after negating the upstream gradients twice"))
      return f;
  }
  return std::nullopt;
}

std::optional<Finding> ZeroHiddenColumnsChangeNothing(const OwnedProblem& problem,
                                                      const Target& target) {
  constexpr int64_t kExtra = 3;
  OwnedProblem wide = problem;
  wide.hidden = WithZeroColumns(problem.hidden, kExtra);
  wide.weight = WithZeroColumns(problem.weight, kExtra);
  const auto before = RunBits(problem, target), after = RunBits(wide, target);
  if (!before || !after) return std::nullopt;
  const auto h = static_cast<size_t>(problem.hidden_size());
  for (size_t output : {kLogprob, kEntropy, kLse, kGradHidden, kGradWeight}) {
    const bool matrix = output == kGradHidden || output == kGradWeight;
    const auto widened = [&](size_t i) -> std::optional<size_t> {
      return matrix ? i / h * (h + kExtra) + i % h : i;
    };
    if (auto f = Compare(output, *before, *after, widened,
                         "with zero columns appended to hidden and weight"))
      return f;
  }
  return std::nullopt;
}

std::optional<Finding> LayoutChangesNothing(const OwnedProblem& problem, const Target& target) {
  OwnedProblem other = problem;
  other.layout.weight_hidden_major = !problem.layout.weight_hidden_major;
  other.layout.hidden_padding = problem.layout.hidden_padding == 0 ? 5 : 0;
  other.layout.weight_padding = problem.layout.weight_padding == 0 ? 3 : 0;
  other.layout.label_offset = problem.layout.label_offset == 0 ? 1 : 0;
  const auto before = RunBits(problem, target), after = RunBits(other, target);
  if (!before || !after) return std::nullopt;
  for (size_t output = kLogprob; output <= kGradWeight; ++output) {
    if (auto f = Compare(output, *before, *after, Same, "in another memory layout")) return f;
  }
  return std::nullopt;
}

std::optional<Finding> IgnoredRowsAreAbsentRows(const OwnedProblem& problem, const Target& target) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    if (!Ignored(problem, i)) kept.push_back(i);
  }
  if (kept.size() == static_cast<size_t>(problem.rows())) return std::nullopt;
  const auto before = RunBits(SelectRows(problem, kept), target), after = RunBits(problem, target);
  if (!before || !after) return std::nullopt;
  const auto h = static_cast<size_t>(problem.hidden_size());
  for (size_t output : {kLogprob, kEntropy, kLse, kGradHidden, kGradWeight}) {
    const size_t columns = output == kGradHidden ? h : 1;
    const auto placed = [&](size_t i) -> std::optional<size_t> {
      if (output == kGradWeight) return i;
      return static_cast<size_t>(kept[i / columns]) * columns + i % columns;
    };
    if (auto f = Compare(output, *before, *after, placed, "with ignored rows between them")) return f;
  }
  return std::nullopt;
}

std::optional<Finding> EntropyDoesNotSeeTheLabel(const OwnedProblem& problem, const Target& target) {
  OwnedProblem other = problem;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    if (Ignored(problem, i)) continue;
    int64_t label = problem.labels.GetInt(i);
    if (label < 0 || label >= problem.vocab()) continue;
    label = (label + 1) % problem.vocab();
    if (label == problem.ignore_index) label = problem.labels.GetInt(i);
    other.labels.SetInt(i, label);
  }
  const auto before = RunBits(problem, target), after = RunBits(other, target);
  if (!before || !after) return std::nullopt;
  for (size_t output : {kEntropy, kLse}) {
    if (auto f = Compare(output, *before, *after, Same, "with other labels")) return f;
  }
  return std::nullopt;
}

}  // namespace plumbline::fuzz::testing

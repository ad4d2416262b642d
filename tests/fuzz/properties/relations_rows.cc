// SPDX-License-Identifier: Apache-2.0
//
// Relations between rows: a row's results depend on that row alone, and sums over rows are sums.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::Problem, kernel::Results, kernel::Reduction;

constexpr std::string_view kIgnoring[] = {"ignored-rows"};
constexpr std::string_view kGradual[] = {"upstream-gradients", "exact-dot", "ragged-tail"};

// The number of elements that a row has in one of the outputs that have rows.
size_t Width(Output output, const OwnedProblem& p) {
  return output == Output::kGradHidden ? static_cast<size_t>(p.hidden_size()) : 1;
}

// Compares row i of a with row j of b in all outputs that a row has of its own.
void SameRow(const OwnedProblem& p, const Measured& a, int64_t i, const Measured& b, int64_t j,
             Comparison* comparison) {
  for (const Output o : {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden}) {
    if (a.size(o) == 0 || b.size(o) == 0) continue;
    const size_t width = Width(o, p);
    for (size_t c = 0; c < width; ++c) {
      comparison->Same(o, a, static_cast<size_t>(i) * width + c, b, static_cast<size_t>(j) * width + c);
    }
  }
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// Fails for a gradient that belongs to a position, or to row 0 (Liger-Kernel #678). What a row has of
// its own is a relation of campaigns (rows-permuted).
Checked GradWeightIgnoresTheOrderOfRows(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  std::vector<int64_t> order = Range(0, p.rows());
  std::reverse(order.begin(), order.end());
  Comparison comparison("with the rows reversed");
  const Measured a(p, s), b(SelectRows(p, order), s);
  if (!a.ok() || !b.ok() || p.rows() < 2) return {};
  for (size_t e = 0; e < a.size(Output::kGradWeight); ++e) {
    comparison.Near(Output::kGradWeight, e, a.term(Output::kGradWeight, e), 0,
                    b.term(Output::kGradWeight, e));
  }
  return std::move(comparison).Result();
}

// Fails for a row without an upstream gradient that is multiplied by zero, when its hidden state is
// NaN.
Checked ARowWithoutUpstreamAddsNothing(const OwnedProblem& given, const Subject& s) {
  OwnedProblem p = Plain(given);
  if (p.rows() < 2 || p.hidden_size() < 1 || p.reduction != Reduction::kNone) return {};
  const int64_t row = p.rows() / 2, h = p.hidden_size();
  if (!Counts(p, row)) return {};
  for (auto* grad : {&p.grad_logprob, &p.grad_entropy}) {
    if (*grad) (*grad)->SetFloat(row, 0);
  }
  OwnedProblem poisoned = p;
  for (int64_t d = 0; d < h; ++d) {
    poisoned.hidden.SetFloat(row * h + d, std::numeric_limits<float>::quiet_NaN());
  }
  Comparison comparison("with NaN in a row that has no upstream gradient");
  const Measured a(p, s), b(poisoned, s);
  if (!a.ok() || !b.ok() || a.size(Output::kGradHidden) == 0) return {};
  for (const Output o : kGradients) comparison.AllSame(o, a, b);
  for (int64_t d = 0; d < h; ++d) {
    const auto e = static_cast<size_t>(row * h + d);
    comparison.Hold(Output::kGradHidden, e, b.bits(Output::kGradHidden)[e] == 0, "+0 is required");
  }
  return std::move(comparison).Result();
}

void MinusZeroForZero(const Problem&, const Results& r) {
  float* grad = Floats(r.grad_hidden);
  if (grad == nullptr) return;
  for (int64_t i = 0; i < r.grad_hidden->shape[0]; ++i) {
    for (int64_t d = 0; d < r.grad_hidden->shape[1]; ++d) {
      float& x = grad[i * r.grad_hidden->stride[0] + d];
      if (x == 0) x = -0.0F;
    }
  }
}

// Fails for an ignored row that is multiplied by zero, or counted.
Checked IgnoredRowsAreAbsentRows(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (!Ignored(p, i)) kept.push_back(i);
  }
  if (kept.size() == static_cast<size_t>(p.rows())) return {};
  Comparison comparison("with ignored rows between them");
  const Measured a(SelectRows(p, kept), s), b(p, s);
  if (!a.ok() || !b.ok()) return {};
  for (size_t i = 0; i < kept.size(); ++i) {
    SameRow(p, a, static_cast<int64_t>(i), b, kept[i], &comparison);
  }
  comparison.AllSame(Output::kLoss, a, b);
  comparison.AllSame(Output::kGradWeight, a, b);
  return std::move(comparison).Result();
}

// Fails for grad_weight of one chunk of rows overwritten by the next, or added twice.
Checked GradWeightAddsUpOverRows(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  if (p.rows() < 2 || p.reduction == Reduction::kMean) return {};
  const int64_t cut = (p.rows() + 1) / 2;
  Comparison comparison("of the first rows and of the others, added up");
  const Measured a(SelectRows(p, Range(0, cut)), s), b(SelectRows(p, Range(cut, p.rows())), s),
      both(p, s);
  if (!a.ok() || !b.ok() || !both.ok()) return {};
  for (size_t e = 0; e < both.size(Output::kGradWeight); ++e) {
    const auto first = a.term(Output::kGradWeight, e), second = b.term(Output::kGradWeight, e);
    if (!second.judged) continue;
    comparison.Near(Output::kGradWeight, e, {first.judged, first.value, first.bound + second.bound},
                    second.value, both.term(Output::kGradWeight, e));
  }
  return std::move(comparison).Result();
}

void GradWeightDoubledInBatches(const Problem& p, const Results& r) {
  float* grad = Floats(r.grad_weight);
  if (grad != nullptr && p.rows() > 3) grad[0] *= 2;
}

// Fails for NaN that gets out of its row.
Checked ANaNStaysInItsRow(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  if (p.rows() < 2 || p.hidden_size() < 1) return {};
  const int64_t row = p.rows() - 1;
  OwnedProblem poisoned = p;
  poisoned.hidden.SetFloat(row * p.hidden_size(), std::numeric_limits<float>::quiet_NaN());
  Comparison comparison("with NaN in another row");
  const Measured a(p, s), b(poisoned, s);
  if (!a.ok() || !b.ok()) return {};
  for (int64_t i = 0; i < row; ++i) SameRow(p, a, i, b, i, &comparison);
  return std::move(comparison).Result();
}

void OneNaNForAll(const Problem&, const Results& r) {
  float* lse = Floats(r.lse);
  if (lse == nullptr) return;
  for (int64_t i = 1; i < r.lse->shape[0]; ++i) {
    if (std::isnan(lse[i])) lse[0] = lse[i];
  }
}

// Fails for `mean` divided by another number of rows, a loss without its sign.
Checked TheLossIsTheSumOfItsRows(const OwnedProblem& given, const Subject& s) {
  OwnedProblem rows = Plain(given);
  rows.reduction = Reduction::kNone;
  rows.grad_logprob.reset();
  rows.grad_entropy.reset();
  OwnedProblem sum = rows, mean = rows;
  sum.reduction = Reduction::kSum;
  mean.reduction = Reduction::kMean;
  Comparison comparison("from the rows' logprob");
  const Measured a(rows, s), b(sum, s), c(mean, s);
  if (!a.ok() || !b.ok() || !c.ok()) return {};
  Measured::Term total{true, 0, 0};
  int64_t counted = 0;
  for (size_t i = 0; i < a.size(Output::kLogprob); ++i) {
    const auto term = a.term(Output::kLogprob, i);
    total.judged = total.judged && term.judged;
    total.value -= term.value;
    total.bound += term.bound;
    counted += Ignored(rows, static_cast<int64_t>(i)) ? 0 : 1;
  }
  if (counted == 0) return {};
  comparison.Near(Output::kLoss, 0, total, 0, b.term(Output::kLoss, 0));
  const auto n = static_cast<double>(counted);
  comparison.Near(Output::kLoss, 0, {total.judged, total.value / n, total.bound / n}, 0,
                  c.term(Output::kLoss, 0));
  return std::move(comparison).Result();
}

void MeanOverAllRows(const Problem& p, const Results& r) {
  float* loss = Floats(r.loss);
  if (loss == nullptr || p.reduction != Reduction::kMean) return;
  *loss *= 0.5F;
}

constexpr Relation kRelations[] = {
    {"GradWeightIgnoresTheOrderOfRows", kGradual, GradWeightIgnoresTheOrderOfRows,
     "first-grad-for-all"},
    {"ARowWithoutUpstreamAddsNothing", kGradual, ARowWithoutUpstreamAddsNothing, "", MinusZeroForZero},
    {"IgnoredRowsAreAbsentRows", kIgnoring, IgnoredRowsAreAbsentRows, "ignored-row-leaks"},
    {"GradWeightAddsUpOverRows", kGradual, GradWeightAddsUpOverRows, "", GradWeightDoubledInBatches},
    {"ANaNStaysInItsRow", {}, ANaNStaysInItsRow, "", OneNaNForAll},
    {"TheLossIsTheSumOfItsRows", {}, TheLossIsTheSumOfItsRows, "", MeanOverAllRows},
};

}  // namespace

std::span<const Relation> RowRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing

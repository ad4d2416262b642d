// SPDX-License-Identifier: Apache-2.0
//
// Relations between the values themselves: ranges, closed forms, and the effect of another label,
// another dtype or a larger label logit.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::DType, kernel::Problem, kernel::Results, kernel::Reduction;

constexpr std::string_view kSharpLogits[] = {"exact-dot", "ragged-tail", "common-offset",
                                             "confident-label"};
constexpr std::string_view kGradual[] = {"exact-dot", "upstream-gradients", "strides"};

size_t At(int64_t i) { return static_cast<size_t>(i); }

// The forward pass of row 0 alone, without gradients.
OwnedProblem FirstRow(const OwnedProblem& given) {
  OwnedProblem p = SelectRows(Plain(given), {0});
  p.wanted.grad_hidden = p.wanted.grad_weight = false;
  return p;
}

std::vector<int64_t> FirstColumns(int64_t count) {
  std::vector<int64_t> columns(At(count));
  std::iota(columns.begin(), columns.end(), 0);
  return columns;
}

bool HasPlainFirstRow(const OwnedProblem& p) {
  return p.rows() >= 1 && p.reduction == Reduction::kNone && Counts(p, 0) && AllFinite(p.hidden) &&
         AllFinite(p.weight);
}

// Fails for a sum whose largest term is not 1, an entropy that is a difference.
Checked SignsAndRanges(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  Comparison comparison("its range");
  const Measured a(p, s);
  if (!a.ok()) return {};
  const double widest = std::log(static_cast<double>(std::max<int64_t>(p.vocab(), 1)));
  for (size_t i = 0; i < a.size(Output::kEntropy); ++i) {
    const auto entropy = a.term(Output::kEntropy, i);
    if (!entropy.judged) continue;
    comparison.Hold(Output::kEntropy, i, entropy.value >= 0, "below 0");
    comparison.Hold(Output::kEntropy, i, entropy.value <= widest * (1 + 0x1p-50) + entropy.bound,
                    "above ln V by more than its bound");
  }
  for (size_t i = 0; i < a.size(Output::kLogprob); ++i) {
    const auto logprob = a.term(Output::kLogprob, i);
    if (logprob.judged) comparison.Hold(Output::kLogprob, i, logprob.value <= 0, "above 0");
  }
  return std::move(comparison).Result();
}

void EntropyAboveItsRange(const Problem& p, const Results& r) {
  if (float* entropy = Floats(r.entropy)) entropy[0] += std::log(static_cast<float>(p.vocab()));
}

// Fails for a maximum whose initial value shows (0, FLT_MIN, -1e4), columns past the vocabulary.
Checked TiesHaveAClosedForm(const OwnedProblem& given, const Subject& s) {
  OwnedProblem p = Plain(given);
  if (!HasPlainFirstRow(p)) return {};
  p.weight = SelectRowsOf(p.weight, std::vector<int64_t>(At(p.vocab()), 0));
  Comparison comparison("with all columns the same");
  const Measured a(p, s);
  if (!a.ok()) return {};
  const double ln = std::log(static_cast<double>(p.vocab()));
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (!Counts(p, i)) continue;
    comparison.Near(Output::kLogprob, At(i), {true, -ln, 0}, 0, a.term(Output::kLogprob, At(i)));
    if (a.size(Output::kEntropy) > 0)
      comparison.Near(Output::kEntropy, At(i), {true, ln, 0}, 0, a.term(Output::kEntropy, At(i)));
    const Logits logits = LogitsOf(p, i);
    if (a.size(Output::kLse) > 0)
      comparison.Near(Output::kLse, At(i), {true, logits.x[0], logits.Error(0, p.hidden_size())}, ln,
                      a.term(Output::kLse, At(i)));
    // The rows of d_logits add up to 0, and every column's weight is the same.
    for (int64_t d = 0; a.size(Output::kGradHidden) > 0 && d < p.hidden_size(); ++d) {
      const size_t e = At(i * p.hidden_size() + d);
      comparison.Near(Output::kGradHidden, e, {true, 0, 0}, 0, a.term(Output::kGradHidden, e));
    }
  }
  return std::move(comparison).Result();
}

// Fails for a vocabulary of one column that is no tile. The results are exact, since there is one
// exponential, of 0.
Checked OneColumnIsCertain(const OwnedProblem& given, const Subject& s) {
  OwnedProblem p = Plain(given);
  if (!AllFinite(p.hidden) || !AllFinite(p.weight) || p.vocab() < 1) return {};
  p.weight = SelectRowsOf(p.weight, {0});
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (!Ignored(p, i)) p.labels.SetInt(i, 0);
  }
  Comparison comparison("with one column");
  const Measured a(p, s);
  if (!a.ok()) return {};
  for (const Output o :
       {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kGradHidden, Output::kGradWeight}) {
    for (size_t e = 0; e < a.size(o); ++e) {
      // Unspecified elements (logits beyond 2^126) stay unspecified.
      if (a.term(o, e).judged) comparison.Near(o, e, a.value(o, e), 0, 0);
    }
  }
  return std::move(comparison).Result();
}

void AColumnIsNeverAlone(const Problem& p, const Results& r) {
  float* entropy = Floats(r.entropy);
  if (entropy != nullptr && p.vocab() == 1) entropy[0] += 1e-30F;
}

// Raises the label's logit by c. With p its probability, logprob grows by c - ln(1 + p (e^c - 1)),
// whose slope by logprob is between 0 and 1. logprob is never less than before, except for the bounds.
// Fails for logprob rounded or clamped on its way, a label's logit that is not the one that was summed.
Checked ARaisedLabelGains(const OwnedProblem& given, const Subject& s) {
  if (!HasPlainFirstRow(Plain(given))) return {};
  const OwnedProblem p = FirstRow(given);
  constexpr float kRaise = 0.75F;
  OwnedProblem same = p, raised = p;
  same.hidden = raised.hidden = WithColumn(p.hidden, 1);
  same.weight = raised.weight = WithColumn(p.weight, 0);
  const int64_t label = p.labels.GetInt(0), h = p.hidden_size();
  raised.weight.SetFloat(label * (h + 1) + h, kRaise);
  Comparison comparison("with the label's logit raised by 3/4");
  const Measured a(same, s), b(raised, s);
  if (!a.ok() || !b.ok()) return {};
  const double c = kRaise / TemperatureOf(p, 0);
  const auto before = a.term(Output::kLogprob, 0), after = b.term(Output::kLogprob, 0);
  if (!before.judged || c > 100) return {};
  const double gain = c - std::log1p(std::exp(before.value) * std::expm1(c));
  comparison.Near(Output::kLogprob, 0, before, gain, after);
  return std::move(comparison).Result();
}

// Imitates a label's logit that loses the last bits of a wide sum.
void LogprobOfAHalf(const Problem&, const Results& r) {
  float* logprob = Floats(r.logprob);
  if (logprob != nullptr && logprob[0] > -1) logprob[0] *= 1.001F;
}

// logprob(a) - logprob(b) = x_a - x_b, and lse and entropy keep their bits. Fails for a label that is
// looked up in another column, row or tile.
Checked LabelsDifferByTheirLogits(const OwnedProblem& given, const Subject& s) {
  if (!HasPlainFirstRow(Plain(given)) || given.vocab() < 2) return {};
  const OwnedProblem p = FirstRow(given);
  OwnedProblem other = p;
  const int64_t one = p.labels.GetInt(0), two = (one + 1 + p.vocab() / 2) % p.vocab();
  other.labels.SetInt(0, two);
  Comparison comparison("with another label");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  comparison.AllSame(Output::kLse, a, b);
  comparison.AllSame(Output::kEntropy, a, b);
  const Logits x = LogitsOf(p, 0);
  auto before = a.term(Output::kLogprob, 0);
  before.bound += x.Error(At(one), p.hidden_size()) + x.Error(At(two), p.hidden_size());
  comparison.Near(Output::kLogprob, 0, before, x.x[At(two)] - x.x[At(one)],
                  b.term(Output::kLogprob, 0));
  return std::move(comparison).Result();
}

// Fails for an entropy formed from the label's logit.
Checked EntropyDoesNotSeeTheLabel(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  OwnedProblem other = p;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Counts(p, i)) other.labels.SetInt(i, (p.labels.GetInt(i) + 1) % p.vocab());
  }
  Comparison comparison("with other labels");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  comparison.AllSame(Output::kEntropy, a, b);
  comparison.AllSame(Output::kLse, a, b);
  return std::move(comparison).Result();
}

void EntropyFromTheLabel(const Problem& p, const Results& r) {
  float *entropy = Floats(r.entropy), *logprob = Floats(r.logprob);
  if (entropy != nullptr && logprob != nullptr && p.vocab() > 1) entropy[0] = -logprob[0];
}

// One row, once with each label: e^logprob adds up to 1. Fails for a sum that holds a column twice, or
// one that no label can name.
Checked ProbabilitiesAddUpToOne(const OwnedProblem& given, const Subject& s) {
  if (!HasPlainFirstRow(Plain(given))) return {};
  OwnedProblem one = FirstRow(given);
  if (one.vocab() > 64) one.weight = SelectRowsOf(one.weight, FirstColumns(61));
  OwnedProblem p = SelectRows(one, std::vector<int64_t>(At(one.vocab()), 0));
  for (int64_t i = 0; i < p.rows(); ++i) p.labels.SetInt(i, i);
  Comparison comparison("over all labels");
  const Measured a(p, s);
  if (!a.ok()) return {};
  double sum = 0, allowed = 0x1p-40;  // 64 terms of fp64, each right to a few 2^-53
  for (size_t v = 0; v < a.size(Output::kLogprob); ++v) {
    const auto logprob = a.term(Output::kLogprob, v);
    if (!logprob.judged) return {};
    sum += std::exp(logprob.value);
    allowed += std::exp(logprob.value) * std::expm1(logprob.bound);
  }
  comparison.Near(Output::kLogprob, 0, sum, 1, allowed);
  return std::move(comparison).Result();
}

// Compares the same numbers in 16 bits and in 32. Fails for a path of one dtype that the others do not
// take.
Checked AWiderDtypeAgrees(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  if (p.hidden.dtype == DType::kF32) return {};
  OwnedProblem wide = p;
  for (auto [to, from] : {std::pair(&wide.hidden, &p.hidden), {&wide.weight, &p.weight}}) {
    *to = HostTensor::Zeros(DType::kF32, from->shape);
    for (int64_t i = 0; i < from->size(); ++i) to->SetFloat(i, from->GetFloat(i));
  }
  wide.wanted.fp32_grads = false;
  Comparison comparison("with the inputs in fp32");
  const Measured a(p, s), b(wide, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : kAll) {
    for (size_t e = 0; e < a.size(o); ++e) comparison.Near(o, e, a.term(o, e), 0, b.term(o, e));
  }
  return std::move(comparison).Result();
}

void InSixteenBitsAlone(const Problem& p, const Results& r) {
  float* lse = Floats(r.lse);
  if (lse != nullptr && p.hidden.dtype != DType::kF32) lse[0] += 0.01F * (1 + std::fabs(lse[0]));
}

constexpr Relation kRelations[] = {
    {"SignsAndRanges", {}, SignsAndRanges, "", EntropyAboveItsRange},
    {"TiesHaveAClosedForm", kGradual, TiesHaveAClosedForm, "tail-unmasked"},
    {"OneColumnIsCertain", {}, OneColumnIsCertain, "", AColumnIsNeverAlone},
    {"ARaisedLabelGains", kSharpLogits, ARaisedLabelGains, "", LogprobOfAHalf},
    {"LabelsDifferByTheirLogits", kSharpLogits, LabelsDifferByTheirLogits, "label-off-by-one"},
    {"EntropyDoesNotSeeTheLabel", {}, EntropyDoesNotSeeTheLabel, "", EntropyFromTheLabel},
    {"ProbabilitiesAddUpToOne", kSharpLogits, ProbabilitiesAddUpToOne, "tail-unmasked"},
    {"AWiderDtypeAgrees", kGradual, AWiderDtypeAgrees, "", InSixteenBitsAlone},
};

}  // namespace

std::span<const Relation> ValueRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing

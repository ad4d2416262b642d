// SPDX-License-Identifier: Apache-2.0
//
// Relations along the hidden dimension and between scales: changes that leave every logit as it is, or
// add the same number to all of them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::DType, kernel::Problem, kernel::Results;

constexpr std::string_view kExact[] = {"exact-dot", "upstream-gradients", "strides"};
constexpr std::string_view kDeep[] = {"cancellation", "swallow", "upstream-gradients", "strides"};
constexpr std::string_view kOffsets[] = {"exact-dot", "common-offset"};

size_t At(int64_t i) { return static_cast<size_t>(i); }

HostTensor ReversedColumns(const HostTensor& t) {
  HostTensor out = t;
  const int64_t columns = t.shape[1];
  for (int64_t i = 0; i < t.size(); ++i) {
    out.SetBits(i, t.GetBits(i / columns * columns + columns - 1 - i % columns));
  }
  return out;
}

// The exponent of the lowest bit set in any element; 0 if all elements are 0.
int LowestBit(const HostTensor& t) {
  int lowest = 200;
  for (int64_t i = 0; i < t.size(); ++i) {
    int exponent = 0;
    double x = std::fabs(std::frexp(double{t.GetFloat(i)}, &exponent));
    if (x == 0) continue;
    while (x != std::floor(x)) x *= 2, --exponent;
    lowest = std::min(lowest, exponent);
  }
  return lowest == 200 ? 0 : lowest;
}

// True if every partial sum of every logit is an fp32 number, whatever the order: terms are multiples
// of one power of two, and their magnitudes add up to at most 2^24 times it.
bool DotsAreExact(const OwnedProblem& p) {
  if (!AllFinite(p.hidden) || !AllFinite(p.weight)) return false;
  const double unit = std::ldexp(1.0, LowestBit(p.hidden) + LowestBit(p.weight));
  for (int64_t i = 0; i < p.rows(); ++i) {
    OwnedProblem row = p;
    row.temperature.reset();
    for (const double magnitude : LogitsOf(row, i).magnitude) {
      if (!(magnitude <= 0x1p24 * unit)) return false;
    }
  }
  return true;
}

// Fails for a hidden tail that is left out, a dimension that is summed apart from the others. The
// results agree bit for bit if no order of summation rounds.
Checked HiddenOrderIsIrrelevant(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  OwnedProblem other = p;
  other.hidden = ReversedColumns(p.hidden);
  other.weight = ReversedColumns(p.weight);
  Comparison comparison("with the hidden dimension reversed");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  const bool exact = DotsAreExact(p);
  const auto compare = [&](Output o, size_t i, size_t j) {
    exact ? comparison.Same(o, a, i, b, j) : comparison.Near(o, i, a.term(o, i), 0, b.term(o, j));
  };
  const int64_t h = p.hidden_size();
  for (const Output o : kAll) {
    const bool matrix = o == Output::kGradHidden || o == Output::kGradWeight;
    for (size_t i = 0; i < a.size(o); ++i) {
      compare(o, i, matrix ? i / At(h) * At(h) + At(h) - 1 - i % At(h) : i);
    }
  }
  return std::move(comparison).Result();
}

void TheFirstColumnTwice(const Problem& p, const Results& r) {
  const auto* h = static_cast<const float*>(p.hidden.data);
  if (p.hidden.dtype == DType::kF32 && p.hidden_size() > 1 && p.rows() > 0 && h[0] > 0) Nudge(r.lse, 0);
}

// Fails for a hidden tail read past its end, or left out.
Checked ZeroHiddenColumnsChangeNothing(const OwnedProblem& p, const Subject& s) {
  constexpr int kExtra = 3;
  OwnedProblem wide = p;
  for (int k = 0; k < kExtra; ++k) {
    wide.hidden = WithColumn(wide.hidden, 0);
    wide.weight = WithColumn(wide.weight, 0);
  }
  Comparison comparison("with zero columns appended to hidden and weight");
  const Measured a(p, s), b(wide, s);
  if (!a.ok() || !b.ok()) return {};
  const auto h = At(p.hidden_size());
  for (const Output o : kAll) {
    const bool matrix = o == Output::kGradHidden || o == Output::kGradWeight;
    for (size_t i = 0; i < a.size(o); ++i) {
      comparison.Same(o, a, i, b, matrix ? i / h * (h + kExtra) + i % h : i);
    }
  }
  return std::move(comparison).Result();
}

void TheDepthIsSeen(const Problem& p, const Results& r) {
  if (p.hidden_size() % 2 == 0) Nudge(r.lse, 0);
}

// Fails for 1/T missing in the backward pass, a temperature that is applied twice or to the wrong
// tensor.
Checked TemperatureScalesHidden(const OwnedProblem& given, const Subject& s) {
  const auto tame = Tamed(given);
  if (!tame) return {};
  const OwnedProblem& p = *tame;
  constexpr int kBy = 2;
  OwnedProblem scaled = p;
  if (!ScaleBy(&scaled.hidden, kBy) || !ScaleBy(&*scaled.temperature, kBy)) return {};
  Comparison comparison("with hidden and the temperature times 4");
  const Measured a(p, s), b(scaled, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
    comparison.AllSame(o, a, b);
  }
  // d_logits are 1/4 of what they were. If a target stores them in fp16, some are subnormal.
  if (p.hidden.dtype == DType::kF16) return std::move(comparison).Result();
  for (size_t e = 0; e < a.size(Output::kGradHidden); ++e) {
    comparison.Scaled(Output::kGradHidden, a, e, b, e, -kBy);
  }
  for (size_t e = 0; e < a.size(Output::kGradWeight); ++e) {
    comparison.Scaled(Output::kGradWeight, a, e, b, e, 0);
  }
  return std::move(comparison).Result();
}

// Fails for a rounding that is not symmetric, a maximum of magnitudes.
Checked NegatingBothFactorsChangesNothing(const OwnedProblem& p, const Subject& s) {
  OwnedProblem negated = p;
  std::optional<HostTensor> hidden = p.hidden, weight = p.weight;
  Negate(&hidden);
  Negate(&weight);
  negated.hidden = *hidden;
  negated.weight = *weight;
  Comparison comparison("with hidden and weight negated");
  const Measured a(p, s), b(negated, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
    comparison.AllSame(o, a, b);
  }
  for (const Output o : kGradients) {
    for (size_t e = 0; e < a.size(o); ++e) comparison.Scaled(o, a, e, b, e, 0, /*negated=*/true);
  }
  return std::move(comparison).Result();
}

void AHiddenSignIsSeen(const Problem& p, const Results& r) {
  const auto* bytes = static_cast<const unsigned char*>(p.hidden.data);
  const auto size = static_cast<int64_t>(kernel::SizeOf(p.hidden.dtype));
  if (p.hidden.size() > 0 && (bytes[size - 1] & 0x80) != 0) Nudge(r.lse, 0);
}

// Fails for x_y - lse, lse - sum p x, a maximum that is not subtracted, or not everywhere.
Checked ACommonOffsetMovesLseAlone(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  constexpr float kOffset = 0x1p10F;
  const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
  OwnedProblem shifted = p;
  shifted.hidden = WithColumn(p.hidden, 1);
  shifted.weight = WithColumn(p.weight, kOffset);
  Comparison comparison("with 2^10 added to every logit");
  const Measured a(p, s), b(shifted, s);
  if (!a.ok() || !b.ok()) return {};
  for (const Output o : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
    for (size_t i = 0; i < a.size(o); ++i) {
      const auto row = static_cast<int64_t>(i);
      const bool moved = o == Output::kLse && Counts(p, row);
      comparison.Near(o, i, a.term(o, i), moved ? kOffset / TemperatureOf(p, row) : 0, b.term(o, i));
    }
  }
  const auto near = [&](Output o, int64_t rows) {
    if (a.size(o) == 0) return;
    for (int64_t e = 0; e < rows * h; ++e) {
      comparison.Near(o, At(e), a.term(o, At(e)), 0, b.term(o, At(e / h * (h + 1) + e % h)));
    }
  };
  near(Output::kGradHidden, n);
  near(Output::kGradWeight, v);
  // The new column's gradient is the offset times the sum of a row of d_logits: 0.
  if (b.size(Output::kGradHidden) > 0) {
    for (int64_t i = 0; i < n; ++i) {
      const size_t e = At(i * (h + 1) + h);
      comparison.Near(Output::kGradHidden, e, {true, 0, 0}, 0, b.term(Output::kGradHidden, e));
    }
  }
  return std::move(comparison).Result();
}

constexpr Relation kRelations[] = {
    {"HiddenOrderIsIrrelevant", kExact, HiddenOrderIsIrrelevant, "", TheFirstColumnTwice},
    {"ZeroHiddenColumnsChangeNothing", {}, ZeroHiddenColumnsChangeNothing, "", TheDepthIsSeen},
    {"TemperatureScalesHidden", kExact, TemperatureScalesHidden, "backward-temperature"},
    {"NegatingBothFactorsChangesNothing", kDeep, NegatingBothFactorsChangesNothing, "",
     AHiddenSignIsSeen},
    {"ACommonOffsetMovesLseAlone", kOffsets, ACommonOffsetMovesLseAlone, "plain-logprob"},
};

}  // namespace

std::span<const Relation> HiddenRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/comparison.h"

#include <algorithm>
#include <cmath>

#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kUnitRoundoff = 0x1p-24, kLeastNormal = 0x1p-126;

// A rough function's error in full makes so many units, a quarter of what is suspect.
constexpr double kShare = HonestUnits::kSuspect / 4;

bool IsGradient(Output o) { return o == Output::kGradHidden || o == Output::kGradWeight; }

double MeanSquare(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(std::max<size_t>(values.size(), 1));
}

}  // namespace

template <class Real>
double ValueOf(const Simulated<Real>& from, Output output, size_t unit, size_t element,
               size_t elements) {
  const auto& forward = from.forward;
  switch (output) {
    case Output::kGradHidden:
      return static_cast<double>(from.grad_hidden[unit * elements + element]);
    case Output::kGradWeight:
      return static_cast<double>(from.grad_weight[unit * elements + element]);
    case Output::kLogprob:
      return static_cast<double>(forward[unit].logprob);
    case Output::kEntropy:
      return static_cast<double>(forward[unit].entropy);
    default:
      return static_cast<double>(forward[unit].lse);
  }
}
template double ValueOf(const Simulated<float>&, Output, size_t, size_t, size_t);
template double ValueOf(const Simulated<double>&, Output, size_t, size_t, size_t);

bool SuspectIn(const std::vector<OutputErrors>& errors, Output output) {
  return std::ranges::any_of(
      errors, [&](const OutputErrors& o) { return o.output == output && o.units.Suspect(); });
}

bool Comparison::Compares(Output output) const {
  if (output == Output::kLoss || !oracle::Find(results_, output)) return false;
  return UnitsOf(output) > 0 && ElementsOf(output) > 0;
}

int64_t Comparison::UnitsOf(Output output) const {
  return static_cast<int64_t>(output == Output::kGradWeight ? places_.weight_rows.size()
                                                            : places_.rows.size());
}

int64_t Comparison::ElementsOf(Output output) const {
  if (output == Output::kGradHidden) return static_cast<int64_t>(places_.hidden_columns.size());
  return output == Output::kGradWeight ? inputs_.h : 1;
}

// The root mean square of a row's elements.
double Comparison::NormOf(const kernel::ConstTensor& matrix, int64_t row) const {
  std::vector<float> operand(static_cast<size_t>(inputs_.h));
  ReadRow(matrix, row, operand);
  double square = 0;
  for (const float x : operand) square += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(square / static_cast<double>(inputs_.h));
}

// What one rounding of fp32 costs an element of a row's part in grad_hidden (times rows of weight) or
// in grad_weight (times a row of hidden): through 1 - p of the label, and through what all columns
// share of the entropy's derivative, k p (ln p + H), which is that of the largest logit's column or
// spread over ordinary ones.
double Comparison::LabelFloor(Output output, size_t row, const Simulated<float>& baseline) const {
  const auto i = static_cast<size_t>(places_.rows[row]);
  const RowForward<float>& forward = baseline.forward[row];
  double of_label = 0, shared = 0;
  if (output == Output::kGradHidden) {
    of_label = NormOf(problem_.weight, inputs_.label[i]);
    shared = std::max(of_label, NormOf(problem_.weight, baseline.top[row]));
    constexpr int64_t kOrdinary = 4;
    for (int64_t j = 0; j < std::min(kOrdinary, inputs_.v); ++j) {
      shared = std::max(shared, NormOf(problem_.weight, j * inputs_.v / kOrdinary % inputs_.v));
    }
  } else {
    of_label = shared = NormOf(problem_.hidden, places_.rows[row]);
  }
  const double entropy = std::abs(static_cast<double>(forward.entropy));
  const double up = std::abs(inputs_.g[i]) * of_label + std::abs(inputs_.k[i]) * (1 + entropy) * shared;
  return kUnitRoundoff * up * (1 + RoughOf(forward).probability / kShare) / inputs_.temperature[i];
}

double Comparison::GradientFloor(Output output, size_t at, const Simulated<float>& baseline) const {
  if (output == Output::kGradHidden) return LabelFloor(output, at, baseline) + Flushed(inputs_.v);
  double square = 0;
  for (size_t r = 0; r < places_.rows.size(); ++r) {
    if (inputs_.label[static_cast<size_t>(places_.rows[r])] != places_.weight_rows[at]) continue;
    const double floor = LabelFloor(output, r, baseline);
    square += floor * floor;
  }
  return std::sqrt(square) + Flushed(inputs_.n);
}

// What a sum of so many terms may lose where results below 2^-126 are 0, for operands of ordinary size.
double Comparison::Flushed(int64_t terms) const {
  return contract_.flush == oracle::Flush::kNone ? 0 : kLeastNormal * static_cast<double>(terms + 1);
}

double Comparison::ForwardFloor(Output output, const RowForward<float>& forward) const {
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double log_s = std::abs(static_cast<double>(forward.log_s));
  const double shift = std::abs(lse - log_s);  // |m| / T, as far as it matters
  const double entropy = std::abs(static_cast<double>(forward.entropy));
  const double logprob = std::abs(static_cast<double>(forward.logprob));
  const Rough rough = RoughOf(forward);
  const double log_rough = (rough.log + rough.exponential) / kShare;
  if (output == Output::kLse) return kUnitRoundoff * (shift + lse + log_rough);
  const bool logprob_is_plain = contract_.plain_logprob, entropy_is_plain = contract_.plain_entropy;
  if (output == Output::kLogprob) {
    return kUnitRoundoff * (1 + logprob + (logprob_is_plain ? shift + lse : 0) + log_rough);
  }
  const double sum = 1 + entropy + (entropy_is_plain ? shift + lse : 0);
  return kUnitRoundoff * (sum + log_rough + rough.probability * sum / kShare);
}

// What the contract declares beyond an ordinary library's functions, in u: no baseline simulates it,
// and an honest kernel may err so in every row alike. A logarithm at the defaults is within the floor:
// 4 + 6 l < 8 (1 + l).
Comparison::Rough Comparison::RoughOf(const RowForward<float>& forward) const {
  const oracle::Contract ordinary;
  const auto beyond = [](double declared, double usual) { return declared > usual ? declared : 0; };
  const double log_s = std::abs(static_cast<double>(forward.log_s));
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double entropy = std::abs(static_cast<double>(forward.entropy));
  Rough rough;
  rough.log = beyond(contract_.log_error_absolute, ordinary.log_error_absolute) +
              beyond(contract_.log_error_relative, ordinary.log_error_relative) * log_s;
  rough.exponential =
      beyond(contract_.exp_error, ordinary.exp_error) +
      beyond(contract_.argument_roundings, ordinary.argument_roundings) * (1 + entropy) +
      beyond(contract_.scale_roundings, ordinary.scale_roundings) * (lse + log_s);
  rough.probability = 2 * rough.exponential + beyond(contract_.division_error, ordinary.division_error);
  return rough;
}

Comparison::Unit Comparison::UnitOf(Output output, size_t at, const std::vector<ExactValues>& exact,
                                    const std::vector<Simulated<float>>& simulated,
                                    double rough) const {
  const auto elements = static_cast<size_t>(ElementsOf(output));
  const kernel::ConstTensor tensor = kernel::AsConst(*oracle::Find(results_, output));
  const int64_t row = output == Output::kGradWeight ? places_.weight_rows[at] : places_.rows[at];
  Unit unit;
  unit.exact.resize(exact.size());
  unit.simulated.resize(simulated.size());
  for (size_t j = 0; j < elements; ++j) {
    const auto column = static_cast<int64_t>(j);
    for (size_t set = 0; set < exact.size(); ++set) {
      unit.exact[set].push_back(exact[set][output][at * elements + j]);
    }
    unit.got.push_back(oracle::ReadElement(
        tensor, row, output == Output::kGradHidden ? places_.hidden_columns[j] : column));
    for (size_t b = 0; b < simulated.size(); ++b) {
      unit.simulated[b].push_back(ValueOf(simulated[b], output, at, j, elements));
    }
  }
  if (!IsGradient(output)) {
    unit.floor = ForwardFloor(output, simulated.front().forward[at]);
    return unit;
  }
  unit.floor = GradientFloor(output, at, simulated.front()) +
               kUnitRoundoff * (1 + rough / kShare) * std::sqrt(MeanSquare(unit.exact.front()));
  return unit;
}

void Comparison::CompareOutput(Output output, std::string_view part, const std::vector<size_t>& at,
                               const std::vector<ExactValues>& exact,
                               const std::vector<Baseline>& baselines,
                               const std::vector<Simulated<float>>& simulated, double rough,
                               std::vector<OutputErrors>* out) const {
  const kernel::DType dtype = oracle::Find(results_, output)->dtype;
  const auto error = [&](const std::vector<double>& exact_values, const std::vector<double>& values) {
    std::vector<double> beyond;
    for (size_t j = 0; j < values.size(); ++j) {
      beyond.push_back(BeyondRounding(values[j], exact_values[j], dtype));
    }
    return std::sqrt(MeanSquare(beyond));
  };
  if (at.empty()) return;
  OutputErrors errors;
  Units units;
  units.baseline.resize(simulated.size());
  for (const size_t i : at) {
    const Unit unit = UnitOf(output, i, exact, simulated, rough);
    double mine = error(unit.exact.front(), unit.got);
    for (const std::vector<double>& set : unit.exact) mine = std::min(mine, error(set, unit.got));
    std::vector<double> theirs;
    for (const std::vector<double>& values : unit.simulated)
      theirs.push_back(error(unit.exact.front(), values));
    // What is no number, or overflows in a baseline, is the first tier's.
    const bool finite =
        std::isfinite(mine) && std::ranges::all_of(theirs, [](double e) { return std::isfinite(e); });
    // Where no baseline errs and nothing is lost to rounding, the rigorous bound is 0 as well.
    errors.dropped += !finite;
    if (!finite || (unit.floor == 0 && std::ranges::all_of(theirs, [](double e) { return e == 0; }))) {
      continue;
    }
    units.error.push_back(mine);
    units.floor.push_back(unit.floor);
    for (size_t b = 0; b < theirs.size(); ++b) units.baseline[b].push_back(theirs[b]);
  }
  errors.output = output;
  errors.part = part;
  errors.units = fuzz::Compare(units);
  errors.baseline = baselines[errors.units.baseline].Name();
  out->push_back(std::move(errors));
}

std::vector<OutputErrors> Comparison::Compare(const std::vector<ExactValues>& exact,
                                              const std::vector<Baseline>& baselines,
                                              const std::vector<Simulated<float>>& simulated) const {
  std::vector<OutputErrors> out;
  double rough = 0;
  for (const RowForward<float>& row : simulated.front().forward) {
    rough = std::max(rough, RoughOf(row).probability);
  }
  for (const Output o : oracle::kOutputs) {
    if (!Compares(o) || exact.front()[o].empty()) continue;
    const bool weight = o == Output::kGradWeight;
    std::vector<size_t> units, labels;
    for (size_t i = 0; i < static_cast<size_t>(UnitsOf(o)); ++i) {
      const bool label =
          weight && std::ranges::find(inputs_.label, places_.weight_rows[i]) != inputs_.label.end();
      (label ? labels : units).push_back(i);
    }
    CompareOutput(o, weight ? "other columns" : "", units, exact, baselines, simulated, rough, &out);
    if (weight) CompareOutput(o, "labels", labels, exact, baselines, simulated, rough, &out);
  }
  return out;
}

}  // namespace plumbline::fuzz

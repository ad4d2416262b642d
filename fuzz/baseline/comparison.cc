// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "fuzz/base/median.h"
#include "fuzz/baseline/rounding.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

bool IsGradient(Output o) { return o == Output::kGradHidden || o == Output::kGradWeight; }

// Not std::hypot, whose version in glibc 2.35 is newer than the package's.
double Both(double a, double b) { return std::sqrt(a * a + b * b); }

// In a unit of fewer elements than these one that lies nearer to a tie than it errs may hold all that
// is left beyond a rounding to 16 bits.
constexpr size_t kManyElements = 64;

double MeanSquare(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(std::max<size_t>(values.size(), 1));
}

// The root mean square of what values err beyond their rounding to `dtype`.
double ErrorBeyond(const std::vector<double>& exact, const std::vector<double>& values,
                   kernel::DType dtype) {
  double sum = 0;
  for (size_t j = 0; j < values.size(); ++j) {
    const double error = BeyondRounding(values[j], exact[j], dtype);
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(std::max<size_t>(values.size(), 1)));
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

Comparison::Comparison(const kernel::Problem& problem, const kernel::Results& results,
                       const oracle::Contract& contract, const oracle::Inputs& inputs,
                       const Places& places, const GivenErrors& given)
    : problem_(problem),
      results_(results),
      contract_(contract),
      inputs_(inputs),
      places_(places),
      given_(given) {
  if (!results.grad_weight) return;
  for (const int64_t row : places.rows) hidden_norm_.push_back(NormOf(problem.hidden, row));
}

bool Comparison::Compares(Output output) const {
  if (output == Output::kLoss || !oracle::Find(results_, output)) return false;
  return UnitsOf(output) > 0 && ElementsOf(output) > 0;
}

// The dtype that an output is rounded to: its tensor's, or a narrower one that the contract declares.
kernel::DType Comparison::DtypeOf(Output output) const {
  const kernel::DType dtype = oracle::Find(results_, output)->dtype;
  if (dtype != kernel::DType::kF32) return dtype;
  const kernel::DType hidden = problem_.hidden.dtype;
  const auto kept =
      output == Output::kLogprob ? contract_.log_probs.For(hidden) : std::optional<kernel::DType>();
  return contract_.outputs[static_cast<size_t>(output)].For(hidden).value_or(kept.value_or(dtype));
}

int64_t Comparison::UnitsOf(Output output) const {
  return static_cast<int64_t>(output == Output::kGradWeight ? places_.weight_rows.size()
                                                            : places_.rows.size());
}

int64_t Comparison::ElementsOf(Output output) const {
  if (output == Output::kGradHidden) return static_cast<int64_t>(places_.hidden_columns.size());
  if (output != Output::kGradWeight) return 1;
  return places_.weight_elements > 0 ? std::min(inputs_.h, places_.weight_elements) : inputs_.h;
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
  const double expected = Expected(output, at, simulated.front());
  if (!IsGradient(output)) {
    unit.floor = Both(ForwardFloor(output, simulated.front().forward[at]), expected);
    return unit;
  }
  const double roundoff = kUnitRoundoff * (1 + rough / kShare) + AccumulatorRoundoff();
  unit.floor = GradientFloor(output, at, simulated.front()) +
               roundoff * std::sqrt(MeanSquare(unit.exact.front()));
  unit.floor = Both(unit.floor, expected);
  return unit;
}

double Comparison::BaselineError(Output output, const std::vector<double>& exact,
                                 const std::vector<double>& values) const {
  const kernel::DType dtype = DtypeOf(output);
  std::vector<double> stored;
  double largest = 0;
  for (size_t j = 0; j < values.size(); ++j) {
    stored.push_back(Rounded(output, values[j]));
    largest = std::max(largest, std::abs(values[j] - exact[j]));
  }
  const double beyond = ErrorBeyond(exact, stored, dtype);
  const bool few = IsGradient(output) && dtype != kernel::DType::kF32 && exact.size() < kManyElements;
  // As much may be left of the one that errs most, if it is the one near a tie.
  const double of_one = std::sqrt(largest * largest / static_cast<double>(values.size()));
  return few ? std::max(beyond, of_one) : beyond;
}

// A gradient's value of a baseline as its kernel stores it: rounded to what the contract declares, then
// to the tensor's dtype. Other outputs are rounded already.
double Comparison::Rounded(Output output, double value) const {
  if (!IsGradient(output)) return value;
  const oracle::StepDType& declared = contract_.outputs[static_cast<size_t>(output)];
  const float once = RoundTo(declared.For(problem_.hidden.dtype).value_or(kernel::DType::kF32),
                             static_cast<float>(value));
  return static_cast<double>(RoundTo(oracle::Find(results_, output)->dtype, once));
}

void Comparison::CompareOutput(Output output, std::string_view part, const std::vector<size_t>& at,
                               const std::vector<ExactValues>& exact,
                               const std::vector<Baseline>& baselines,
                               const std::vector<Simulated<float>>& simulated, double rough,
                               std::vector<OutputErrors>* out) const {
  const kernel::DType dtype = DtypeOf(output);
  if (at.empty()) return;
  OutputErrors errors;
  Units units;
  units.baseline.resize(simulated.size());
  for (const size_t i : at) {
    const Unit unit = UnitOf(output, i, exact, simulated, rough);
    double mine = ErrorBeyond(unit.exact.front(), unit.got, dtype);
    for (size_t set = 1; set < unit.exact.size(); ++set) {
      mine = std::min(mine, ErrorBeyond(unit.exact[set], unit.got, dtype));
    }
    std::vector<double> theirs;
    for (const std::vector<double>& values : unit.simulated) {
      theirs.push_back(BaselineError(output, unit.exact.front(), values));
    }
    // What is no number, or overflows in a baseline, is the first tier's.
    const bool finite = std::isfinite(mine) && std::isfinite(unit.floor) &&
                        std::ranges::all_of(theirs, [](double e) { return std::isfinite(e); });
    // Where no baseline errs and nothing is lost to rounding, the rigorous bound is 0 as well.
    errors.dropped += !finite;
    if (!finite || (unit.floor == 0 && std::ranges::all_of(theirs, [](double e) { return e == 0; }))) {
      continue;
    }
    const double scale = Both(unit.floor, theirs.empty() ? 0 : std::ranges::max(theirs));
    const bool one = unit.got.size() == 1;
    errors.worst.push_back({output == Output::kGradWeight ? places_.weight_rows[i] : places_.rows[i],
                            mine, scale, one ? unit.got.front() : kNoValue,
                            one ? unit.exact.front().front() : kNoValue});
    errors.unit.push_back(i);
    errors.scale.push_back(scale);
    units.error.push_back(mine);
    units.floor.push_back(unit.floor);
    for (size_t b = 0; b < theirs.size(); ++b) units.baseline[b].push_back(theirs[b]);
  }
  std::ranges::stable_sort(errors.worst, std::greater(), &WorstUnit::error);
  if (errors.worst.size() > kWorstUnits) errors.worst.resize(kWorstUnits);
  errors.output = output;
  errors.part = part;
  errors.units = fuzz::Compare(units);
  errors.baseline = baselines[errors.units.baseline].Name();
  out->push_back(std::move(errors));
}

Comparison::Share Comparison::ExplainedShare(const OutputErrors& before, const ExactValues& without,
                                             const std::vector<ExactValues>& with) const {
  constexpr double kOwn = 2;
  const Output output = before.output;
  const kernel::ConstTensor tensor = kernel::AsConst(*oracle::Find(results_, output));
  const auto elements = static_cast<size_t>(ElementsOf(output));
  const kernel::DType dtype = DtypeOf(output);
  std::vector<double> shares;
  for (size_t k = 0; k < before.unit.size(); ++k) {
    const size_t at = before.unit[k];
    const int64_t row = output == Output::kGradWeight ? places_.weight_rows[at] : places_.rows[at];
    double error = 0, left = std::numeric_limits<double>::infinity(), own = 0;
    for (const ExactValues& side : with) {
      double of_error = 0, of_left = 0, of_own = 0;
      for (size_t j = 0; j < elements; ++j) {
        const double got = oracle::ReadElement(
            tensor, row,
            output == Output::kGradHidden ? places_.hidden_columns[j] : static_cast<int64_t>(j));
        const double from = without[output][at * elements + j], to = side[output][at * elements + j];
        const double e = BeyondRounding(got, from, dtype), r = BeyondRounding(got, to, dtype);
        of_error += e * e;
        of_left += r * r;
        of_own += (to - from) * (to - from);
      }
      if (of_left < left) {
        error = of_error;
        left = of_left;
        own = of_own;
      }
    }
    if (!(std::sqrt(own / static_cast<double>(elements)) >= kOwn * before.scale[k])) continue;
    shares.push_back(error > 0 ? 1 - left / error : -1);
  }
  Share share;
  share.units = static_cast<int64_t>(shares.size());
  share.median = Median(std::move(shares));
  return share;
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

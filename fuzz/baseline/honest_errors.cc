// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/honest_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kUnitRoundoff = 0x1p-24;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// Columns of each gradient. More would show no other cause, and cost as much as the logits.
constexpr int64_t kMostColumns = 256;
// Multiply-adds of one chain in fp32; one of a tensor core counts as kAlignedCost of them (one core
// with AVX-512: 45e9 a second, and 4.5e9 to 6.3e9). 64 rows of 151936 x 4096 are within it as a black
// box.
constexpr double kMostWork = 0x1p40;
constexpr double kAlignedCost = 8;
constexpr int64_t kLeastRows = 8;

bool IsGradient(Output o) { return o == Output::kGradHidden || o == Output::kGradWeight; }

// The multiply-adds of a row's logits in every dot product of the family.
double CostOfRow(const Family& family, int64_t v, int64_t h) {
  double cost = 0;
  std::vector<Dot> known;
  for (const Baseline& baseline : family.baselines) {
    if (std::ranges::find(known, baseline.dot) != known.end()) continue;
    known.push_back(baseline.dot);
    cost += baseline.dot.kind == Dot::Kind::kAligned ? kAlignedCost : 1;
  }
  return cost * static_cast<double>(v) * static_cast<double>(h);
}

// `count` of them, evenly spread, always with the first.
std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count) {
  const auto all = static_cast<int64_t>(from.size());
  if (count >= all) return from;
  std::vector<int64_t> to;
  for (int64_t i = 0; i < count; ++i) to.push_back(from[static_cast<size_t>(i * all / count)]);
  return to;
}

double MeanSquare(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(std::max<size_t>(values.size(), 1));
}

float ForwardValue(const RowForward& forward, Output output) {
  return output == Output::kLogprob   ? forward.logprob
         : output == Output::kEntropy ? forward.entropy
                                      : forward.lse;
}

}  // namespace

bool HonestErrors::Suspect(Output output) const {
  return std::ranges::any_of(
      outputs, [&](const OutputErrors& o) { return o.output == output && o.units.Suspect(); });
}

HonestErrorTier::HonestErrorTier(const kernel::Problem& problem, const kernel::Results& results,
                                 const oracle::Contract& contract, const HonestErrorOptions& options)
    : problem_(problem),
      results_(results),
      options_(options),
      contract_(contract),
      inputs_(oracle::LoadInputs(problem, options.counted_rows)),
      family_(FamilyOf(contract, problem.hidden.dtype)),
      exact_(oracle::kOutputs.size()) {
  if (inputs_.v == 0 || inputs_.h == 0) {
    left_out_.emplace_back("everything: there are no products");
    return;
  }
  ChooseRows(CostOfRow(family_, inputs_.v, inputs_.h));
  ChooseColumns();
  for (const Output o : oracle::kOutputs) {
    Exact& exact = exact_[static_cast<size_t>(o)];
    size_t units = places_.rows.size();
    if (o == Output::kGradHidden) exact.elements = static_cast<int64_t>(places_.hidden_columns.size());
    if (o == Output::kGradWeight) {
      units = places_.weight_rows.size();
      exact.elements = inputs_.h;
    }
    if (Judges(o)) exact.value.assign(units * static_cast<size_t>(exact.elements), kNone);
  }
  if (oracle::Find(results_, Output::kLoss)) {
    left_out_.emplace_back("loss: one value, whose realised error may be 0 by chance");
  }
}

bool HonestErrorTier::Judges(Output output) const {
  if (output == Output::kLoss || !oracle::Find(results_, output)) return false;
  if (output == Output::kGradHidden) return !places_.hidden_columns.empty();
  if (output == Output::kGradWeight) return !places_.weight_rows.empty();
  return !places_.rows.empty();
}

void HonestErrorTier::ChooseRows(double cost_of_row) {
  const std::vector<int64_t> normal = inputs_.NormalRows();
  const auto all = static_cast<int64_t>(normal.size());
  int64_t count = all;
  if (!options_.deep) {
    count = std::min(all, std::max(kLeastRows, static_cast<int64_t>(kMostWork / cost_of_row)));
  }
  places_.rows = Spread(normal, count);
  if (count < all) {
    left_out_.push_back(Text("%lld of %lld rows: --deep compares all",
                             static_cast<long long>(all - count), static_cast<long long>(all)));
  }
}

void HonestErrorTier::ChooseColumns() {
  const auto gradient = [&](Output o) {
    if (!oracle::Find(results_, o)) return false;
    if (family_.no_gradients.empty()) return true;
    left_out_.push_back(std::string(oracle::Name(o)) + ": " + family_.no_gradients);
    return false;
  };
  const int64_t h = inputs_.h, v = inputs_.v;
  if (gradient(Output::kGradHidden)) {
    // Groups of neighbours, since a baseline computes that many at once.
    const int64_t groups = (h + kProductColumns - 1) / kProductColumns;
    std::set<int64_t> chosen;
    const int64_t wanted = std::min(groups, kMostColumns / kProductColumns);
    for (uint64_t at = 0; static_cast<int64_t>(chosen.size()) < wanted; ++at) {
      chosen.insert(wanted == groups
                        ? static_cast<int64_t>(at)
                        : static_cast<int64_t>(Mix(options_.seed, at) % static_cast<uint64_t>(groups)));
    }
    for (const int64_t group : chosen) {
      const int64_t first = group * kProductColumns;
      for (int64_t j = first; j < std::min(h, first + kProductColumns); ++j) {
        places_.hidden_columns.push_back(j);
      }
    }
  }
  if (!gradient(Output::kGradWeight)) return;
  if (places_.rows.size() < inputs_.NormalRows().size()) {
    left_out_.emplace_back("grad_weight: it depends on every row");
    return;
  }
  std::set<int64_t> chosen;
  for (const int64_t i : places_.rows) {
    if (static_cast<int64_t>(chosen.size()) < kMostColumns / 2) {
      chosen.insert(inputs_.label[static_cast<size_t>(i)]);
    }
  }
  const int64_t wanted = std::min(v, kMostColumns);
  for (uint64_t at = 0; static_cast<int64_t>(chosen.size()) < wanted; ++at) {
    chosen.insert(wanted == v
                      ? static_cast<int64_t>(at)
                      : static_cast<int64_t>(Mix(options_.seed + 1, at) % static_cast<uint64_t>(v)));
  }
  places_.weight_rows.assign(chosen.begin(), chosen.end());
}

void HonestErrorTier::Take(const oracle::ElementRow& row) {
  const auto take = [&](const std::vector<int64_t>& units, const std::vector<int64_t>* columns) {
    const auto at = std::ranges::lower_bound(units, row.row);
    if (at == units.end() || *at != row.row) return;
    const std::scoped_lock lock(mutex_);
    Exact& exact = exact_[static_cast<size_t>(row.output)];
    if (exact.value.empty()) return;
    const auto elements = static_cast<size_t>(exact.elements);
    double* const to = exact.value.data() + static_cast<size_t>(at - units.begin()) * elements;
    for (size_t j = 0; j < elements; ++j) {
      const int64_t column = columns != nullptr ? (*columns)[j] : static_cast<int64_t>(j);
      const oracle::Element e = row.at(column);
      // A vacuous bound says nothing, but the exact value is known.
      const bool number = e.expect == oracle::Expect::kFinite || e.expect == oracle::Expect::kVacuous;
      to[j] = number ? e.value : kNone;
    }
  };
  if (row.output == Output::kGradWeight) {
    take(places_.weight_rows, nullptr);
  } else if (row.output == Output::kGradHidden) {
    take(places_.rows, &places_.hidden_columns);
  } else if (row.output != Output::kLoss) {
    take(places_.rows, nullptr);
  }
}

// What one rounding of fp32 costs through 1 - p of the label, an element of that row's part in
// grad_hidden (times a row of weight) or in grad_weight (times a row of hidden).
double HonestErrorTier::LabelFloor(Output output, size_t row, const RowForward& forward) const {
  const auto i = static_cast<size_t>(places_.rows[row]);
  const bool hidden = output == Output::kGradHidden;
  std::vector<float> operand(static_cast<size_t>(inputs_.h));
  ReadRow(hidden ? problem_.weight : problem_.hidden, hidden ? inputs_.label[i] : places_.rows[row],
          operand);
  double square = 0;
  for (const float x : operand) square += static_cast<double>(x) * static_cast<double>(x);
  const double up = std::abs(inputs_.g[i]) +
                    std::abs(inputs_.k[i]) * (1 + std::abs(static_cast<double>(forward.entropy)));
  return kUnitRoundoff * up / inputs_.temperature[i] *
         std::sqrt(square / static_cast<double>(inputs_.h));
}

double HonestErrorTier::GradientFloor(Output output, size_t at,
                                      const std::vector<RowForward>& forward) const {
  if (output == Output::kGradHidden) return LabelFloor(output, at, forward[at]);
  double square = 0;
  for (size_t r = 0; r < places_.rows.size(); ++r) {
    if (inputs_.label[static_cast<size_t>(places_.rows[r])] != places_.weight_rows[at]) continue;
    const double floor = LabelFloor(output, r, forward[r]);
    square += floor * floor;
  }
  return std::sqrt(square);
}

double HonestErrorTier::ForwardFloor(Output output, const RowForward& forward) const {
  const double lse = std::abs(static_cast<double>(forward.lse));
  const double log_s = std::abs(static_cast<double>(forward.log_s));
  const double shift = std::abs(lse - log_s);  // |m| / T, as far as it matters
  const double entropy = std::abs(static_cast<double>(forward.entropy));
  const double logprob = std::abs(static_cast<double>(forward.logprob));
  // A logarithm as rough as the contract allows must not be suspect. At its defaults it is within the
  // rest: 4 + 6 l < 8 (1 + l).
  const oracle::Contract ordinary;
  const double rough =
      (std::max(0.0, contract_.log_error_absolute - ordinary.log_error_absolute) +
       std::max(0.0, contract_.log_error_relative - ordinary.log_error_relative) * log_s) /
      (HonestUnits::kSuspect / 2);
  if (output == Output::kLse) return kUnitRoundoff * (shift + lse + rough);
  const bool plain = output == Output::kLogprob ? contract_.plain_logprob : contract_.plain_entropy;
  return kUnitRoundoff *
         (1 + (output == Output::kLogprob ? logprob : entropy) + (plain ? shift + lse : 0) + rough);
}

HonestErrorTier::Unit HonestErrorTier::UnitOf(Output output, size_t at,
                                              const std::vector<Simulated>& simulated) const {
  const Exact& exact = exact_[static_cast<size_t>(output)];
  const auto elements = static_cast<size_t>(exact.elements);
  const kernel::ConstTensor tensor = kernel::AsConst(*oracle::Find(results_, output));
  Unit unit;
  unit.simulated.resize(simulated.size());
  for (size_t j = 0; j < elements; ++j) {
    const auto column = static_cast<int64_t>(j);
    const int64_t row = output == Output::kGradWeight ? places_.weight_rows[at] : places_.rows[at];
    unit.exact.push_back(exact.value[at * elements + j]);
    unit.got.push_back(oracle::ReadElement(
        tensor, row, output == Output::kGradHidden ? places_.hidden_columns[j] : column));
    for (size_t b = 0; b < simulated.size(); ++b) {
      const Simulated& from = simulated[b];
      unit.simulated[b].push_back(static_cast<double>(
          output == Output::kGradHidden   ? from.grad_hidden[at * elements + j]
          : output == Output::kGradWeight ? from.grad_weight[at * elements + j]
                                          : ForwardValue(from.forward[at], output)));
    }
  }
  const std::vector<RowForward>& forward = simulated.front().forward;
  unit.floor = IsGradient(output) ? GradientFloor(output, at, forward) +
                                        kUnitRoundoff * std::sqrt(MeanSquare(unit.exact))
                                  : ForwardFloor(output, forward[at]);
  return unit;
}

void HonestErrorTier::CompareOutput(Output output, std::string_view part, const std::vector<size_t>& at,
                                    const std::vector<Simulated>& simulated, HonestErrors* out) const {
  const kernel::DType dtype = oracle::Find(results_, output)->dtype;
  const auto error = [&](const Unit& unit, const std::vector<double>& values) {
    std::vector<double> beyond;
    for (size_t j = 0; j < values.size(); ++j) {
      beyond.push_back(BeyondRounding(values[j], unit.exact[j], dtype));
    }
    return std::sqrt(MeanSquare(beyond));
  };
  Units units;
  units.baseline.resize(simulated.size());
  for (const size_t i : at) {
    const Unit unit = UnitOf(output, i, simulated);
    const double mine = error(unit, unit.got);
    std::vector<double> theirs;
    for (const std::vector<double>& values : unit.simulated) theirs.push_back(error(unit, values));
    // What is no number, or overflows in a baseline, is the first tier's.
    const bool finite =
        std::isfinite(mine) && std::ranges::all_of(theirs, [](double e) { return std::isfinite(e); });
    // Where no baseline errs and nothing is lost to rounding, the rigorous bound is 0 as well.
    if (!finite || (unit.floor == 0 && std::ranges::all_of(theirs, [](double e) { return e == 0; }))) {
      continue;
    }
    units.error.push_back(mine);
    units.floor.push_back(unit.floor);
    for (size_t b = 0; b < theirs.size(); ++b) units.baseline[b].push_back(theirs[b]);
  }
  if (units.error.empty()) return;
  OutputErrors errors;
  errors.output = output;
  errors.part = part;
  errors.units = fuzz::Compare(units);
  errors.baseline = family_.baselines[errors.units.baseline].Name();
  out->outputs.push_back(std::move(errors));
}

HonestErrors HonestErrorTier::Compare() {
  HonestErrors out;
  out.left_out = left_out_;
  if (places_.rows.empty()) return out;
  SimulationOptions simulation;
  simulation.threads = options_.threads;
  simulation.interrupt = options_.interrupt;
  if (Judges(Output::kGradHidden)) simulation.grad_hidden = results_.grad_hidden->dtype;
  if (Judges(Output::kGradWeight)) simulation.grad_weight = results_.grad_weight->dtype;
  const std::vector<Simulated> simulated = Simulate(problem_, inputs_, family_, places_, simulation);
  if (simulated.empty()) return out;
  out.rows = static_cast<int64_t>(places_.rows.size());
  out.baselines = static_cast<int64_t>(simulated.size());
  for (const Output o : oracle::kOutputs) {
    if (!Judges(o)) continue;
    std::vector<size_t> units, labels;
    const size_t count = o == Output::kGradWeight ? places_.weight_rows.size() : places_.rows.size();
    for (size_t i = 0; i < count; ++i) {
      const bool label =
          o == Output::kGradWeight &&
          std::ranges::find(inputs_.label, places_.weight_rows[i]) != inputs_.label.end();
      (label ? labels : units).push_back(i);
    }
    const bool weight = o == Output::kGradWeight;
    CompareOutput(o, weight ? "other columns" : "", units, simulated, &out);
    if (weight) CompareOutput(o, "labels", labels, simulated, &out);
    if (weight) out.weight_rows = static_cast<int64_t>(places_.weight_rows.size());
    if (o == Output::kGradHidden)
      out.hidden_columns = static_cast<int64_t>(places_.hidden_columns.size());
  }
  return out;
}

}  // namespace plumbline::fuzz

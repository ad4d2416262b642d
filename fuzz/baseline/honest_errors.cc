// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/honest_errors.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/baseline/exact_shortcuts.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// Columns of each gradient. More would show no other cause, and cost as much as the logits.
constexpr int64_t kMostColumns = 256;
// In Dot::Cost. 64 rows of 151936 x 4096 are within it as a black box.
constexpr double kMostWork = 0x1p40;
constexpr int64_t kLeastRows = 8;
// Logits of all rows together. A black box holds fourteen floats for each: 896 MiB, and 3.5 GiB.
constexpr int64_t kMostLogits = int64_t{1} << 24, kMostLogitsDeep = int64_t{1} << 26;

// The multiply-adds of a row's logits in every dot product of the family.
double CostOfRow(const Family& family, int64_t v, int64_t h) {
  return CostOfLogits(family) * static_cast<double>(v) * static_cast<double>(h);
}

}  // namespace

bool HonestErrors::Suspect(Output output) const { return SuspectIn(outputs, output); }

bool HonestErrors::AnySuspect() const {
  return std::ranges::any_of(outputs, [](const OutputErrors& o) { return o.units.Suspect(); });
}

HonestErrorTier::HonestErrorTier(const kernel::Problem& problem, const kernel::Results& results,
                                 const oracle::Contract& contract, const HonestErrorOptions& options)
    : problem_(problem),
      results_(results),
      options_(options),
      contract_(contract),
      inputs_(oracle::LoadInputs(problem, contract, options.counted_rows)),
      family_(FamilyOf(contract, problem.hidden.dtype)) {
  if (inputs_.v == 0 || inputs_.h == 0) {
    left_out_.emplace_back("everything: there are no products");
    return;
  }
  ChooseRows(CostOfRow(family_, inputs_.v, inputs_.h));
  ChooseColumns();
  const Comparison comparison(problem_, results_, contract_, inputs_, places_);
  for (const Output o : oracle::kOutputs) {
    if (!comparison.Compares(o)) continue;
    exact_[o].assign(static_cast<size_t>(comparison.UnitsOf(o) * comparison.ElementsOf(o)), kNone);
  }
  if (oracle::Find(results_, Output::kLoss)) {
    left_out_.emplace_back("loss: one value, whose realised error may be 0 by chance");
  }
}

void HonestErrorTier::ChooseRows(double cost_of_row) {
  const std::vector<int64_t> normal = inputs_.NormalRows();
  const auto all = static_cast<int64_t>(normal.size());
  const int64_t held = (options_.deep ? kMostLogitsDeep : kMostLogits) / inputs_.v;
  int64_t count = std::min(all, std::max(held, kLeastRows));
  if (!options_.deep) {
    count = std::min(count, std::max(kLeastRows, static_cast<int64_t>(kMostWork / cost_of_row)));
  }
  places_.rows = Spread(normal, count);
  if (count == all) return;
  left_out_.push_back(Text("%" PRId64 " of %" PRId64 " rows: ", all - count, all) +
                      (options_.deep ? "the logits of more do not fit into 256 MiB a baseline"
                                     : "--deep compares more"));
}

void HonestErrorTier::ChooseColumns() {
  const int64_t h = inputs_.h, v = inputs_.v;
  if (oracle::Find(results_, Output::kGradHidden)) {
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
  if (!oracle::Find(results_, Output::kGradWeight)) return;
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
    std::vector<double>& exact = exact_[row.output];
    if (exact.empty()) return;
    const size_t elements = exact.size() / units.size();
    double* const to = exact.data() + static_cast<size_t>(at - units.begin()) * elements;
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

HonestErrors HonestErrorTier::Compare() {
  HonestErrors out;
  out.left_out = left_out_;
  if (places_.rows.empty()) return out;
  SimulationOptions simulation;
  simulation.threads = options_.threads;
  simulation.interrupt = options_.interrupt;
  simulation.grad_hidden = !exact_[Output::kGradHidden].empty();
  simulation.grad_weight = !exact_[Output::kGradWeight].empty();
  const Comparison comparison(problem_, results_, contract_, inputs_, places_);
  {
    Simulation<float> baselines(problem_, inputs_, places_, simulation);
    const std::vector<Simulated<float>> simulated = baselines.RunFamily(family_.baselines);
    if (simulated.empty()) return out;
    std::vector<ExactValues> sides = {exact_};
    if (family_.declared != Shortcuts()) {
      // What lies near a tie of a declared rounding may go either way.
      ExactShortcuts exact(problem_, inputs_, family_, places_, simulation, comparison, &baselines);
      std::vector<ExactValues> rounded = exact.Under(family_.declared);
      if (rounded.empty()) return out;
      std::ranges::move(rounded, std::back_inserter(sides));
    }
    out.outputs = comparison.Compare(sides, family_.baselines, simulated);
  }
  out.rows = static_cast<int64_t>(places_.rows.size());
  out.baselines = static_cast<int64_t>(family_.baselines.size());
  if (simulation.grad_hidden) out.hidden_columns = static_cast<int64_t>(places_.hidden_columns.size());
  if (simulation.grad_weight) out.weight_rows = static_cast<int64_t>(places_.weight_rows.size());
  std::vector<Output> suspect;
  for (const Output o : oracle::kOutputs) {
    if (out.Suspect(o)) suspect.push_back(o);
  }
  if (!suspect.empty()) {
    out.explanation = ExplainByShortcuts(problem_, results_, contract_, inputs_, family_, places_,
                                         simulation, suspect);
  }
  return out;
}

}  // namespace plumbline::fuzz

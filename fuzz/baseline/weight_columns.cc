// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/weight_columns.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Output;

constexpr int64_t kMostWeightRows = 256, kLeastWeightRows = 32;
// In multiply-adds of one chain in fp32: 12 s of one core.
constexpr double kMostWeightWork = 0x1p39;
constexpr int64_t kMostHidden = int64_t{1} << 28;  // elements, 1 GiB in fp32, held twice
// An lse of whose honest errors nothing is known.
constexpr double kLeastLseError = 0x1p-22;

// Why these results give no forward pass to start from; empty if they do.
std::string WhyNotGiven(const oracle::Inputs& inputs, const kernel::Results& results) {
  if (!results.lse && !results.logprob)
    return "the rows that are not judged have neither lse nor logprob";
  const Output from = results.lse ? Output::kLse : Output::kLogprob;
  const auto narrow = [&](Output o) {
    const DType dtype = oracle::Find(results, o)->dtype;
    return dtype == DType::kF32
               ? ""
               : std::string(oracle::Name(o)) + " is " + std::string(kernel::Name(dtype)) +
                     ", too coarse to start backward from";
  };
  if (std::string why = narrow(from); !why.empty()) return why;
  if (std::ranges::all_of(inputs.k, [](double k) { return k == 0; })) return {};
  if (!results.entropy)
    return "the entropy has a gradient, and no value in the rows that are not judged";
  return narrow(Output::kEntropy);
}

// A row's lse, or its label's logit less its logprob.
double LseOf(const kernel::Problem& problem, const oracle::Inputs& inputs,
             const kernel::Results& results, int64_t row) {
  if (results.lse) return oracle::ReadElement(AsConst(*results.lse), row, 0);
  const auto i = static_cast<size_t>(row);
  std::vector<float> hidden(static_cast<size_t>(inputs.h)), weight(hidden.size());
  ReadRow(problem.hidden, row, hidden);
  ReadRow(problem.weight, inputs.label[i], weight);
  double logit = 0;
  for (size_t j = 0; j < hidden.size(); ++j) {
    logit += static_cast<double>(hidden[j]) * static_cast<double>(weight[j]);
  }
  return logit / inputs.temperature[i] - oracle::ReadElement(AsConst(*results.logprob), row, 0);
}

// Why forward outputs as they are given do not tell what backward had; empty if they do.
std::string WhyNotUnder(const oracle::Contract& contract, const kernel::Results& results) {
  const auto narrow = [&](Output o) { return contract.outputs[static_cast<size_t>(o)].Narrow(); };
  if (narrow(Output::kLogprob) || narrow(Output::kLse) || narrow(Output::kEntropy)) {
    return "its contract has forward outputs rounded";
  }
  if (contract.log_probs.Narrow()) return "its contract keeps log-probabilities in 16 bits";
  const bool rounded = contract.logits.Narrow() || contract.scaled_logits.Narrow();
  return rounded && !results.lse ? "there is no lse, and the label's logit is rounded" : "";
}

class Columns {
 public:
  Columns(const kernel::Problem& problem, const kernel::Results& results,
          const oracle::Contract& contract, const HonestErrorOptions& options, double lse_error)
      : problem_(problem),
        contract_(contract),
        options_(options),
        inputs_(oracle::LoadInputs(problem, contract, options.counted_rows)),
        family_(FamilyOf(contract, problem.hidden.dtype)) {
    results_.grad_weight = results.grad_weight;
    simulation_.threads = options.threads;
    simulation_.interrupt = options.interrupt;
    simulation_.grad_weight = true;
    simulation_.given_errors = GivenErrorsOf(results, lse_error);
    // Rows without an upstream gradient may hold anything.
    for (const int64_t row : inputs_.NormalRows()) {
      if (!inputs_.LeftOut(row)) places_.rows.push_back(row);
    }
    if (Planted(HarnessDefect::kRowsLeftOut)) places_.rows.resize(places_.rows.size() / 2);
    why_not_ = WhyNot();
    if (why_not_.empty()) why_not_ = WhyNotUnder(contract, results);
    if (why_not_.empty()) ChooseColumns();
    if (why_not_.empty()) {
      why_not_ = ReadGiven(problem, inputs_, results, places_.rows, &simulation_.given);
    }
  }

  HonestErrors Compare() {
    HonestErrors out;
    if (places_.rows.empty() && inputs_.v > 0 && inputs_.h > 0 && inputs_.first_invalid_row < 0) {
      return WithoutRows();
    }
    if (!why_not_.empty()) {
      out.left_out.push_back("grad_weight over all rows: " + why_not_);
      return out;
    }
    out.outputs =
        CompareFromGiven(problem_, results_, contract_, inputs_, family_, places_, simulation_);
    if (out.outputs.empty()) return out;
    out.rows = static_cast<int64_t>(places_.rows.size());
    out.baselines = static_cast<int64_t>(family_.baselines.size());
    out.weight_rows = static_cast<int64_t>(places_.weight_rows.size());
    if (out.AnySuspect()) {
      out.explanation = ExplainByShortcuts(problem_, results_, contract_, inputs_, family_, places_,
                                           simulation_, {Output::kGradWeight});
    }
    return out;
  }

 private:
  // No row takes part: every element is 0, and no honest kernel errs.
  HonestErrors WithoutRows() const {
    HonestErrors out;
    const kernel::ConstTensor gradient = AsConst(*results_.grad_weight);
    OutputErrors errors;
    errors.output = Output::kGradWeight;
    errors.part = "no row takes part";
    errors.baseline = "none";
    double square = 0;
    for (int64_t v = 0; v < inputs_.v; ++v) {
      for (int64_t j = 0; j < inputs_.h; ++j) {
        const double value = oracle::ReadElement(gradient, v, j);
        if (value != 0) square += value * value;
      }
    }
    errors.units.units = out.weight_rows = inputs_.v;
    errors.units.found = std::sqrt(square / static_cast<double>(inputs_.v * inputs_.h));
    if (errors.units.found != 0) errors.units.rms = std::numeric_limits<double>::infinity();
    out.outputs.push_back(std::move(errors));
    return out;
  }

  std::string WhyNot() const {
    if (inputs_.v == 0 || inputs_.h == 0) return "there are no products";
    if (places_.rows.empty()) return "no row takes part in it";
    if (inputs_.first_invalid_row >= 0) {
      return Text("row %" PRId64 " has an invalid label or temperature", inputs_.first_invalid_row);
    }
    const auto rows = static_cast<int64_t>(places_.rows.size());
    if (rows > kMostHidden / inputs_.h) {
      return Text("%" PRId64 " rows of %" PRId64 " elements take more than 2 GiB", rows, inputs_.h);
    }
    return {};
  }

  // Half of them are labels, as far as there are so many.
  void ChooseColumns() {
    double cost = CostOfLogits(family_);
    for (const Baseline& baseline : family_.baselines) cost += baseline.dot.Cost();
    cost *= static_cast<double>(places_.rows.size()) * static_cast<double>(inputs_.h);
    int64_t count = kMostWeightRows;
    if (!options_.deep) count = std::min(count, static_cast<int64_t>(kMostWeightWork / cost));
    if (count < kLeastWeightRows) {
      why_not_ = "it would take minutes; --deep compares it";
      return;
    }
    count = std::min(count, inputs_.v);
    std::set<int64_t> chosen;
    for (const int64_t i : Spread(places_.rows, count / 2)) {
      chosen.insert(inputs_.label[static_cast<size_t>(i)]);
    }
    for (uint64_t at = 0; static_cast<int64_t>(chosen.size()) < count; ++at) {
      chosen.insert(count == inputs_.v ? static_cast<int64_t>(at)
                                       : static_cast<int64_t>(Mix(options_.seed + 2, at) %
                                                              static_cast<uint64_t>(inputs_.v)));
    }
    places_.weight_rows.assign(chosen.begin(), chosen.end());
  }

  const kernel::Problem& problem_;
  const oracle::Contract& contract_;
  const HonestErrorOptions options_;
  const oracle::Inputs inputs_;
  const Family family_;
  kernel::Results results_;
  SimulationOptions simulation_;
  Places places_;
  std::string why_not_;
};

}  // namespace

GivenErrors GivenErrorsOf(const kernel::Results& results, double lse_error) {
  return {std::max(lse_error, kLeastLseError),
          results.logprob && results.logprob->dtype == DType::kF32};
}

std::string ReadGiven(const kernel::Problem& problem, const oracle::Inputs& inputs,
                      const kernel::Results& results, const std::vector<int64_t>& rows,
                      std::vector<GivenForward>* given) {
  if (std::string why = WhyNotGiven(inputs, results); !why.empty()) return why;
  given->clear();
  for (const int64_t row : rows) {
    GivenForward& of_row = given->emplace_back();
    of_row.lse = LseOf(problem, inputs, results, row);
    if (results.logprob && results.logprob->dtype == DType::kF32) {
      of_row.logprob = oracle::ReadElement(AsConst(*results.logprob), row, 0);
    }
    if (inputs.k[static_cast<size_t>(row)] != 0) {
      of_row.entropy = oracle::ReadElement(AsConst(*results.entropy), row, 0);
    }
    const bool finite = std::isfinite(of_row.lse) && std::isfinite(of_row.entropy);
    if (!finite || !std::isfinite(of_row.logprob.value_or(0))) {
      return Text("row %" PRId64 " has an lse of %g and an entropy of %g", row, of_row.lse,
                  of_row.entropy);
    }
  }
  return {};
}

std::vector<OutputErrors> CompareFromGiven(const kernel::Problem& problem,
                                           const kernel::Results& results,
                                           const oracle::Contract& contract,
                                           const oracle::Inputs& inputs, const Family& family,
                                           const Places& places, const SimulationOptions& simulation) {
  kernel::Results weight;
  weight.grad_weight = results.grad_weight;
  const Comparison comparison(problem, weight, contract, inputs, places, simulation.given_errors);
  Simulation<double> exact(problem, inputs, places, simulation);
  Simulation<float> baselines(problem, inputs, places, simulation);
  Baseline as_declared;
  as_declared.shortcuts = family.declared;
  std::vector<Simulated<double>> truth = exact.Run({as_declared});
  if (truth.empty()) return {};
  const std::vector<Simulated<float>> simulated = baselines.RunFamily(family.baselines);
  if (simulated.empty()) return {};
  ExactValues values;
  values[Output::kGradWeight] = std::move(truth.front().grad_weight);
  return comparison.Compare({values}, family.baselines, simulated);
}

HonestErrors CompareWeightColumns(const kernel::Problem& problem, const kernel::Results& results,
                                  const oracle::Contract& contract, const HonestErrorOptions& options,
                                  double lse_error) {
  if (!results.grad_weight) return {};
  return Columns(problem, results, contract, options, lse_error).Compare();
}

}  // namespace plumbline::fuzz

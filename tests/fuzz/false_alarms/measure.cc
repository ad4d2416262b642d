// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/measure.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "fuzz/baseline/weight_columns.h"
#include "oracle/verdict/verdict.h"
#include "tests/fuzz/false_alarms/foreign.h"
#include "tests/fuzz/false_alarms/outputs.h"

namespace plumbline::false_alarms {
namespace {

using fuzz::Baseline, fuzz::Simulated;
using kernel::DType;
using oracle::Output;

size_t UnitsOf(const fuzz::Places& places, Output output) {
  return output == Output::kGradWeight ? places.weight_rows.size() : places.rows.size();
}
size_t ElementsOf(const kernel::Problem& problem, const fuzz::Places& places, Output output) {
  if (output == Output::kGradHidden) return places.hidden_columns.size();
  return output == Output::kGradWeight ? static_cast<size_t>(problem.hidden_size()) : 1;
}

// One problem and what its members share: logits, baselines, memory.
class OneProblem {
 public:
  OneProblem(const Drawn& drawn, const MeasureOptions& options)
      : drawn_(drawn),
        options_(options),
        problem_(fuzz::DenseView(drawn.problem)),
        inputs_(oracle::LoadInputs(problem_)),
        exact_(ExactValuesOf(problem_, inputs_, drawn.places)),
        outputs_(problem_, drawn.gradients),
        columns_(problem_, drawn.places.hidden_columns),
        sums_(problem_, drawn.places.rows) {}

  // Simulates every baseline that a member needs, each once.
  void Simulate(const std::vector<const Member*>& members);
  std::vector<fuzz::OutputErrors> ErrorsOf(const Member& member);

 private:
  std::vector<fuzz::OutputErrors> FromGiven(const Member& member, const fuzz::Family& family,
                                            const kernel::Results& results,
                                            const std::vector<fuzz::OutputErrors>& errors);
  void Fill(const Simulated<float>& from, const kernel::Results& results) const;
  void Want(const Baseline& baseline);
  const Simulated<float>& Of(const Baseline& baseline) const;
  DType dtype() const { return problem_.hidden.dtype; }

  const Drawn& drawn_;
  const MeasureOptions& options_;
  const kernel::Problem problem_;
  const oracle::Inputs inputs_;
  const fuzz::ExactValues exact_;
  const Outputs outputs_;
  const WeightColumns columns_;
  Sums sums_;
  std::vector<Baseline> baselines_;
  std::vector<Simulated<float>> simulated_;  // of each of them
  std::optional<fuzz::Simulation<float>> simulation_;
};

void OneProblem::Want(const Baseline& baseline) {
  if (std::ranges::find(baselines_, baseline) == baselines_.end()) baselines_.push_back(baseline);
}

void OneProblem::Simulate(const std::vector<const Member*>& members) {
  for (const Member* member : members) {
    for (const Baseline& each : FamilyFor(*member, dtype()).baselines) Want(each);
    if (member->baseline) Want(BaselineOf(*member, dtype()));
  }
  // A run has one number of bits of operands.
  std::ranges::stable_sort(baselines_, {}, &Baseline::operand_bits);
  fuzz::SimulationOptions options;
  options.grad_hidden = options.grad_weight = true;
  simulation_.emplace(problem_, inputs_, drawn_.places, options);
  for (auto first = baselines_.begin(); first != baselines_.end();) {
    const auto last = std::find_if(first, baselines_.end(), [&](const Baseline& each) {
      return each.operand_bits != first->operand_bits;
    });
    for (Simulated<float>& each : simulation_->Run({first, last}))
      simulated_.push_back(std::move(each));
    first = last;
  }
}

const Simulated<float>& OneProblem::Of(const Baseline& baseline) const {
  const auto at = std::ranges::find(baselines_, baseline);
  return simulated_.at(static_cast<size_t>(at - baselines_.begin()));
}

// Writes what a baseline computed as if it were a target.
void OneProblem::Fill(const Simulated<float>& from, const kernel::Results& results) const {
  for (const Output output : oracle::kOutputs) {
    const auto& tensor = oracle::Find(results, output);
    if (output == Output::kLoss || !tensor) continue;
    const size_t elements = ElementsOf(problem_, drawn_.places, output);
    for (size_t unit = 0; unit < UnitsOf(drawn_.places, output); ++unit) {
      const int64_t row =
          output == Output::kGradWeight ? drawn_.places.weight_rows[unit] : drawn_.places.rows[unit];
      for (size_t j = 0; j < elements; ++j) {
        const int64_t column =
            output == Output::kGradHidden ? drawn_.places.hidden_columns[j] : static_cast<int64_t>(j);
        Write(*tensor, row, column, static_cast<float>(ValueOf(from, output, unit, j, elements)));
      }
    }
  }
}

std::vector<fuzz::OutputErrors> OneProblem::ErrorsOf(const Member& member) {
  const fuzz::Family family = FamilyFor(member, dtype());
  const bool whole = member.target != nullptr && !options_.target_gradients;
  const kernel::Results results = outputs_.Without(whole, whole);
  if (member.kernel) {
    RunForeign(*member.kernel, member.pairwise, {problem_, inputs_, drawn_.places, columns_, &sums_},
               results);
  } else if (member.baseline) {
    Fill(Of(BaselineOf(member, dtype())), results);
  } else if (const auto outcome = member.target->Run(problem_, results);
             outcome.status != fuzz::RunStatus::kOk) {
    throw std::runtime_error(member.name + ": " + outcome.message);
  }
  std::vector<Simulated<float>> simulated;
  for (const Baseline& each : family.baselines) simulated.push_back(Of(each));
  simulated.front().spread = SpreadOf(&*simulation_, family.baselines, simulated.front());
  const fuzz::Comparison comparison(problem_, results, member.contract, inputs_, drawn_.places);
  std::vector<fuzz::OutputErrors> errors = comparison.Compare({exact_}, family.baselines, simulated);
  std::ranges::move(FromGiven(member, family, results, errors), std::back_inserter(errors));
  return errors;
}

// grad_weight once more, from the member's own lse.
std::vector<fuzz::OutputErrors> OneProblem::FromGiven(const Member& member, const fuzz::Family& family,
                                                      const kernel::Results& results,
                                                      const std::vector<fuzz::OutputErrors>& errors) {
  if (!results.grad_weight) return {};
  fuzz::SimulationOptions options;
  options.grad_weight = true;
  double lse_error = 0;
  for (const fuzz::OutputErrors& o : errors) {
    if (o.output == Output::kLse) lse_error = o.units.honest;
  }
  options.given_errors = fuzz::GivenErrorsOf(results, lse_error);
  if (!fuzz::ReadGiven(problem_, inputs_, results, drawn_.places.rows, &options.given).empty())
    return {};
  std::vector<fuzz::OutputErrors> given = fuzz::CompareFromGiven(
      problem_, results, member.contract, inputs_, family, drawn_.places, options);
  for (fuzz::OutputErrors& o : given) {
    o.part = o.part == "labels" ? "labels, from its lse" : "other columns, from its lse";
  }
  return given;
}

bool IsWanted(const Member& member, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::any_of(only, [&](const std::string& part) {
           return member.name.find(part) != std::string::npos;
         });
}

}  // namespace

fuzz::ExactValues ExactValuesOf(const kernel::Problem& problem, const oracle::Inputs& inputs,
                                const fuzz::Places& places) {
  fuzz::SimulationOptions options;
  options.grad_hidden = options.grad_weight = true;
  Baseline plain;
  plain.sum = fuzz::SumForm::kLanes;
  plain.ratio = true;
  const std::vector<Simulated<double>> exact =
      fuzz::Simulation<double>(problem, inputs, places, options).Run({plain});
  fuzz::ExactValues to;
  for (const Output output : oracle::kOutputs) {
    if (output == Output::kLoss) continue;
    const size_t elements = ElementsOf(problem, places, output);
    for (size_t i = 0; i < UnitsOf(places, output) * elements; ++i) {
      to[output].push_back(ValueOf(exact.front(), output, i / elements, i % elements, elements));
    }
  }
  return to;
}

std::vector<MemberErrors> Measure(const Members& members, const Drawn& drawn,
                                  const MeasureOptions& options) {
  std::vector<const Member*> taken;
  for (const Member& member : members.all()) {
    const bool takes = !member.only_sixteen_bits || drawn.problem.hidden.dtype != DType::kF32;
    if (takes && IsWanted(member, options.only)) taken.push_back(&member);
  }
  OneProblem problem(drawn, options);
  problem.Simulate(taken);
  std::vector<MemberErrors> to;
  for (const Member* member : taken) {
    to.push_back({static_cast<size_t>(member - members.all().data()), problem.ErrorsOf(*member)});
  }
  return to;
}

}  // namespace plumbline::false_alarms

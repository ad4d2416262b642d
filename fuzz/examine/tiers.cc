// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/tiers.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

using oracle::Judgement, oracle::OutputVerdict;

bool AnyFails(const Judgement& judgement) {
  return std::ranges::any_of(judgement.outputs, [](const OutputVerdict& v) { return v.fail > 0; });
}

// What each named contract stands for, parsed once.
const std::vector<std::pair<std::string, oracle::Contract>>& Candidates() {
  static const auto* const all = [] {
    auto* list = new std::vector<std::pair<std::string, oracle::Contract>>;
    for (const NamedContract& named : NamedContracts()) {
      std::string error;
      const auto text = WithContract(R"({"name": "candidate"})", named.name, &error);
      list->emplace_back(named.name, ParseDescription(*text, &error)->Assumed());
    }
    return list;
  }();
  return *all;
}

}  // namespace

bool TieredJudgement::Failed() const { return AnyFails(judgement); }

std::vector<TieredJudgement> JudgeInTiers(const Description& description, const JudgeBy& judge) {
  std::vector<TieredJudgement> tiered;
  const oracle::Contract narrow =
      Planted(HarnessDefect::kAssumedNotJudged) ? description.contract : description.Assumed();
  for (Judgement& judgement : judge(narrow)) {
    const size_t outputs = judgement.outputs.size();
    tiered.push_back({std::move(judgement), std::vector<int64_t>(outputs)});
  }
  const bool fails = std::ranges::any_of(tiered, &TieredJudgement::Failed);
  if (!fails || !description.assumptions.any()) return tiered;
  const std::vector<Judgement> declared = judge(description.contract);
  for (size_t set = 0; set < tiered.size(); ++set) {
    Judgement& mine = tiered[set].judgement;
    const Judgement& other = declared[set];
    if (mine.fault.empty()) mine.fault = other.fault;
    mine.interrupted = mine.interrupted || other.interrupted;
    if (other.outputs.size() != mine.outputs.size()) continue;  // it could not be judged again
    for (size_t o = 0; o < mine.outputs.size(); ++o) {
      OutputVerdict& v = mine.outputs[o];
      const OutputVerdict& by_declared = other.outputs[o];
      // An element that fails by the declared contract fails by the narrower one.
      const int64_t suspect = std::max<int64_t>(0, v.fail - by_declared.fail);
      tiered[set].suspect[o] = Planted(HarnessDefect::kSuspectIsWrong) ? 0 : suspect;
      if (by_declared.fail > 0) {  // the worst element is one that is wrong; counts stay
        const OutputVerdict first = std::exchange(v, by_declared);
        v.pass = first.pass;
        v.fail = first.fail;
        v.vacuous = first.vacuous;
        v.unspecified = first.unspecified;
      }
    }
  }
  return tiered;
}

void AddReadings(const Description& description, const PassesBy& passes,
                 std::vector<Finding>* findings) {
  for (Finding& f : *findings) {
    const auto output =
        std::ranges::find(oracle::kOutputs, f.output, [](oracle::Output o) { return oracle::Name(o); });
    if (!f.suspect || f.kind == FindingKind::kMagnitude || output == oracle::kOutputs.end()) continue;
    for (const Reading& reading : Readings()) {
      if (!reading.concerns(*output)) continue;
      oracle::Contract contract = description.contract;
      Assumptions assumed = description.assumptions;
      if (reading.apply(&contract, &assumed) && passes(Assume(contract, assumed), *output)) {
        f.readings.push_back({std::string(reading.what), std::string(reading.opt_out)});
      }
    }
  }
}

std::vector<ContractFit> FitsOf(const kernel::Problem& problem, const kernel::Results& results) {
  std::vector<ContractFit> fits;
  for (const auto& [name, contract] : Candidates()) {
    ContractFit fit{name, 0};
    const Judgement judgement = oracle::JudgeProblem(problem, results, contract);
    int64_t judged = 0;
    for (const OutputVerdict& v : judgement.outputs) {
      judged += v.pass + v.fail;
      if (!(v.tightness <= fit.tightness)) fit.tightness = v.tightness;
      if (v.fail > 0 && !(fit.tightness > 1)) fit.tightness = std::numeric_limits<double>::infinity();
    }
    if (judged > 0 && judgement.fault.empty()) fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/infer/infer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "fuzz/baseline/small_case.h"
#include "fuzz/infer/judged_set.h"
#include "fuzz/infer/members.h"
#include "fuzz/target/contracts.h"
#include "oracle/budget/rounded_logits.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Contract, oracle::Output, oracle::OutputVerdict;

constexpr int kMostShortcuts = 8;
// A candidate is tried on so many failing cases, and the one that is taken on all.
constexpr size_t kSample = 24;
// Cases in which a rounding must be wherever it would show.
constexpr size_t kUsedSample = 48;
// What no key declares goes before what one does if it explains nearly all, and before a form, whose
// bound alone explains, if it explains most.
constexpr double kNearlyAll = 0.9, kMost = 0.5;
// Fewer cases may be one bug that a rounding resembles.
constexpr int64_t kLeastCases = 2;

class Search {
 public:
  Search(const std::vector<InferenceCase>& cases, std::string_view base)
      : base_(base), members_(Members()), cases_(cases) {}

  Inference Run() {
    Inference out;
    out.cases = static_cast<int64_t>(cases_.size());
    std::vector<Outputs> failing = cases_.Failing(ContractOf({}));
    out.failing = Count(failing);
    while (chosen_.members().size() < kMostShortcuts && Count(failing) > 0) {
      const std::vector<const Member*> best = BestOf(failing);
      if (best.empty()) break;
      for (const Member* member : best) chosen_ = chosen_.With(*member);
      failing = cases_.Failing(ContractOf(chosen_));
    }
    DropWhatIsNotNeeded(&failing);
    out.contract = WordsWith(chosen_);
    out.unexplained = Count(failing);
    for (const Member* member : chosen_.members()) out.shortcuts.push_back(Describe(*member, failing));
    if (out.unexplained > 0) {
      cases_.Forget();
      const Contract contract = ContractOf(chosen_);
      const std::string what = WithoutKey(SampleOf(failing), failing, contract, kMost);
      if (!what.empty()) {
        InferredShortcut& without_key = out.shortcuts.emplace_back();
        without_key.what = what;
        without_key.cases = out.unexplained;
      }
    }
    return out;
  }

 private:
  static int64_t Count(const std::vector<Outputs>& failing) {
    return std::ranges::count_if(failing, [](Outputs outputs) { return outputs != 0; });
  }

  std::string WordsWith(const MemberSet& chosen) const {
    const std::string words = chosen.Words();
    return base_ + (words.empty() ? "" : "," + words);
  }
  Contract ContractOf(const MemberSet& chosen) const {
    std::string error;
    const auto description = DescriptionOf(WordsWith(chosen), &error);
    return description ? description->description.Assumed() : Contract();
  }

  // What a set has explained in a sample.
  struct Explained {
    int outputs = 0;  // less those that it breaks
    int64_t cases = 0;
    std::set<DType> inputs;  // of these cases
    double log_bound = 0;    // of what it clears, summed
    int rank = -1;           // of a form
    Outputs cleared = 0;     // in any of them
  };

  // Adds what joining the set clears in one case. A bound that is wide enough is no evidence of a
  // rounding: the error must be that of the rounding.
  void Clear(size_t at, Outputs failing, const MemberSet& with, const Contract& contract, bool is_form,
             const Contract& before, Explained* explained) {
    const DType hidden = cases_.HiddenOf(at);
    Outputs now = 0, cleared = 0;
    std::optional<OutputVerdict> loss;
    for (OutputVerdict& v : cases_.Judge(at, contract)) {
      if (v.fail > 0) {
        now |= Bit(v.output);
      } else if ((failing & Bit(v.output)) != 0) {
        cleared |= Bit(v.output);
        explained->log_bound += std::log(std::max(v.expected.bound, 1e-300));
        if (v.output == Output::kLoss) loss = std::move(v);
      }
    }
    SmallCase* const small = cleared != 0 && !is_form ? cases_.SmallOf(at, before) : nullptr;
    if (cleared == 0 || (!is_form && small == nullptr)) return;
    const Shortcuts roundings = is_form ? Shortcuts() : with.RoundingsFor(hidden, small->declared());
    for (const Output output : oracle::kOutputs) {
      if (is_form || (cleared & Bit(output)) == 0 || output == Output::kLoss) continue;
      if (!small->Explains(roundings, output)) cleared &= ~Bit(output);
    }
    if (loss && !is_form && !IsLossOf(*loss, with, hidden, cleared)) cleared &= ~Bit(Output::kLoss);
    const int outputs = std::popcount(cleared) - std::popcount(now & ~failing);
    explained->outputs += outputs;
    if (outputs <= 0) return;
    ++explained->cases;
    explained->cleared |= cleared;
    explained->inputs.insert(hidden);
  }

  // No loss is simulated: it is what its rows' errors make it where another output has them, or the
  // exact one rounded once.
  static bool IsLossOf(const OutputVerdict& v, const MemberSet& with, DType hidden, Outputs cleared) {
    const auto dtype = with.StoredIn(Output::kLoss, hidden);
    if (!dtype) return (cleared & ~Bit(Output::kLoss)) != 0;
    const double rounded = oracle::RoundTo(*dtype, v.expected.value);
    return v.got == rounded || v.got == oracle::RoundTo(*dtype, v.expected.value + v.expected.radius);
  }

  // Whether a rounding is there wherever it would show in any output, but for one element in ten of
  // those that have its error or none, with inputs of these dtypes.
  bool IsUsed(const MemberSet& with, const std::set<DType>& inputs, const Contract& before) {
    std::array<SmallCase::Shown, oracle::kOutputs.size()> shown;
    const size_t count = std::min(cases_.size(), kUsedSample);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = i * cases_.size() / count;
      const DType hidden = cases_.HiddenOf(at);
      SmallCase* const small = inputs.contains(hidden) ? cases_.SmallOf(at, before) : nullptr;
      if (small == nullptr) continue;
      const Shortcuts roundings = with.RoundingsFor(hidden, small->declared());
      for (const Output output : oracle::kOutputs) {
        if (output == Output::kLoss) continue;
        const SmallCase::Shown here = small->ShownIn(roundings, output);
        shown[static_cast<size_t>(output)].present += here.present;
        shown[static_cast<size_t>(output)].absent += here.absent;
      }
    }
    return std::ranges::all_of(shown,
                               [](const SmallCase::Shown& s) { return 9 * s.absent <= s.present; });
  }

  // The cases of a sample in which one of these outputs fails. A form whose bound lets a few of many
  // pass is no evidence.
  static int64_t FailingAsWell(Outputs outputs, const std::vector<size_t>& sample,
                               const std::vector<Outputs>& failing) {
    return std::ranges::count_if(sample, [&](size_t at) { return (failing[at] & outputs) != 0; });
  }

  // What a set that joins explains in a sample; nothing if it is not used, or explains too few cases to
  // tell, or no more than `best`. Forms that explain as much are told apart by their bounds.
  std::optional<Explained> Score(const MemberSet& with, bool is_form, const std::vector<size_t>& sample,
                                 const std::vector<Outputs>& failing, const Contract& before,
                                 const std::optional<Explained>& best) {
    const Contract contract = ContractOf(with);
    Explained explained;
    if (is_form) explained.rank = with.members().back()->rank;
    const Member& last = *with.members().back();
    for (const size_t at : sample) {
      if (!last.MayTell(cases_.HiddenOf(at))) continue;
      Clear(at, failing[at], with, contract, is_form, before, &explained);
    }
    const auto least = std::min<int64_t>(kLeastCases, static_cast<int64_t>(sample.size()));
    if (explained.outputs <= 0 || explained.cases < least) return std::nullopt;
    if (is_form && 10 * explained.cases < 9 * FailingAsWell(explained.cleared, sample, failing)) {
      return std::nullopt;
    }
    if (best) {
      const bool narrower = is_form && explained.rank == best->rank &&
                            explained.outputs == best->outputs && explained.log_bound < best->log_bound;
      if (explained.outputs <= best->outputs && !narrower) return std::nullopt;
    }
    if (last.stored && !cases_.IsOnGrid(*last.stored, last.stored_in)) return std::nullopt;
    if (!is_form && !IsUsed(with, explained.inputs, before)) return std::nullopt;
    return explained;
  }

  // The rounding that explains most; if there is none, the pair of steps in the dtype of hidden, which
  // may act on all outputs together; if there is none, the form. Empty if nothing does.
  std::vector<const Member*> BestOf(const std::vector<Outputs>& failing) {
    const std::vector<size_t> sample = SampleOf(failing);
    const Contract before = ContractOf(chosen_);
    cases_.Forget();  // of another set
    std::vector<const Member*> best;
    std::optional<Explained> most;
    const auto take = [&](std::vector<const Member*> members, bool is_form) {
      MemberSet with = chosen_;
      for (const Member* member : members) {
        if (!with.CanTake(*member)) return;
        with = with.With(*member);
      }
      std::optional<Explained> explained = Score(with, is_form, sample, failing, before, most);
      if (!explained) return;
      most = std::move(explained);
      best = std::move(members);
    };
    // What no key declares may resemble what one does.
    if (!WithoutKey(sample, failing, before, kNearlyAll).empty()) return best;
    for (const Member& member : members_) {
      if (!member.IsForm() && member.HasKey()) take({&member}, false);
    }
    if (!best.empty()) return best;
    for (const std::vector<const Member*>& together : StepsTogether()) {
      take(together, false);
    }
    if (!best.empty() || !WithoutKey(sample, failing, before, kMost).empty()) return best;
    for (const Member& member : members_) {
      if (member.IsForm()) take({&member}, true);
    }
    return best;
  }

  // The rounding without a key that explains this share of what fails in a sample; empty if none does.
  // Its bound is unknown, so its simulation is all there is.
  std::string WithoutKey(const std::vector<size_t>& sample, const std::vector<Outputs>& failing,
                         const Contract& before, double share) {
    std::string best;
    int64_t most = 0, all = 0;
    std::set<DType> inputs;
    for (const size_t at : sample) {
      if (cases_.SmallOf(at, before) == nullptr) continue;
      all += std::popcount(failing[at] & ~Bit(Output::kLoss));
      inputs.insert(cases_.HiddenOf(at));
    }
    for (const Member& member : members_) {
      if (member.HasKey()) continue;
      const MemberSet with = chosen_.With(member);
      int64_t explained = 0;
      for (const size_t at : sample) {
        SmallCase* const small = cases_.SmallOf(at, before);
        if (small == nullptr) continue;
        const Shortcuts roundings = with.RoundingsFor(cases_.HiddenOf(at), small->declared());
        for (const Output output : oracle::kOutputs) {
          if ((failing[at] & Bit(output)) == 0 || output == Output::kLoss) continue;
          explained += small->Explains(roundings, output);
        }
      }
      if (static_cast<double>(explained) < share * static_cast<double>(all)) continue;
      if (explained <= most || !IsUsed(with, inputs, before)) continue;
      most = explained;
      best = member.what;
    }
    return best;
  }

  // Pairs of steps that have the dtype of hidden, then all of them.
  std::vector<std::vector<const Member*>> StepsTogether() const {
    std::vector<const Member*> steps;
    for (const Member& member : members_) {
      if (member.HasDtypeOfHidden()) steps.push_back(&member);
    }
    std::vector<std::vector<const Member*>> sets;
    for (size_t i = 0; i < steps.size(); ++i) {
      for (size_t k = i + 1; k < steps.size(); ++k) sets.push_back({steps[i], steps[k]});
    }
    sets.push_back(std::move(steps));
    return sets;
  }

  // Spread over the failing cases, each output that fails among them.
  std::vector<size_t> SampleOf(const std::vector<Outputs>& failing) const {
    std::vector<size_t> sample;
    for (const Output output : oracle::kOutputs) {
      std::vector<size_t> of_output;
      for (size_t at = 0; at < failing.size(); ++at) {
        if ((failing[at] & Bit(output)) != 0) of_output.push_back(at);
      }
      const size_t count = std::min(of_output.size(), kSample / 4);
      for (size_t i = 0; i < count; ++i) sample.push_back(of_output[i * of_output.size() / count]);
    }
    std::ranges::sort(sample);
    const auto repeated = std::ranges::unique(sample);
    sample.erase(repeated.begin(), repeated.end());
    return sample;
  }

  // A member stays only if it makes whole cases pass: where a bug is left in every case, what clears a
  // part of it is no shortcut.
  void DropWhatIsNotNeeded(std::vector<Outputs>* failing) {
    for (size_t i = 0; i < chosen_.members().size();) {
      const MemberSet without = chosen_.Without(*chosen_.members()[i]);
      std::vector<Outputs> then = cases_.Failing(ContractOf(without));
      const int64_t gain = Count(then) - Count(*failing);
      if (gain < std::clamp<int64_t>(Count(then), 1, kLeastCases)) {
        chosen_ = without;
        *failing = std::move(then);
        i = 0;
      } else {
        ++i;
      }
    }
  }

  // What fails without it alone, and where its error is largest.
  InferredShortcut Describe(const Member& member, const std::vector<Outputs>& failing) const {
    InferredShortcut shortcut;
    shortcut.what = member.what;
    shortcut.declares = MemberSet().With(member).Words();
    const Contract contract = ContractOf(chosen_.Without(member));
    for (size_t at = 0; at < cases_.size(); ++at) {
      bool explained = false;
      for (const OutputVerdict& v : cases_.Judge(at, contract)) {
        if (v.fail == 0 || (failing[at] & Bit(v.output)) != 0) continue;
        explained = true;
        const double error = std::abs(v.got - v.expected.value);
        if (!(error > shortcut.error)) continue;
        shortcut.error = error;
        shortcut.output = oracle::Name(v.output);
        shortcut.recipe = cases_.RecipeOf(at);
      }
      shortcut.cases += explained;
    }
    return shortcut;
  }

  const std::string base_;
  const std::vector<Member> members_;
  JudgedSet cases_;
  MemberSet chosen_;
};

}  // namespace

Inference InferShortcuts(const std::vector<InferenceCase>& cases, std::string_view base) {
  return Search(cases, base).Run();
}

void Fields(FieldVisitor& io, InferredShortcut& shortcut) {
  io("what", shortcut.what);
  io("declares", shortcut.declares);
  io("cases", shortcut.cases);
  io("output", shortcut.output);
  io("error", shortcut.error);
  io("recipe", shortcut.recipe);
}

void Fields(FieldVisitor& io, Inference& inference) {
  io("shortcuts", inference.shortcuts);
  io("contract", inference.contract);
  io("cases", inference.cases);
  io("left", inference.left);
  io("failing", inference.failing);
  io("unexplained", inference.unexplained);
  io("incomplete", inference.incomplete);
}

}  // namespace plumbline::fuzz

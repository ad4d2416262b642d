// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/gate_report.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/stored_cases.h"
#include "fuzz/cli/report_text.h"

namespace plumbline::fuzz {
namespace {

using Outcome = JUnitCase::Outcome;

// What the cases of one regime, or one stored case, showed.
struct Shown {
  int64_t cases = 0, judged = 0, faults = 0, us = 0;
  std::map<std::string, int64_t> signatures;  // cases that showed it
  std::map<std::string, int64_t> skip_reasons;

  void Add(const CaseRecord& record) {
    ++cases;
    judged += record.Judged() ? 1 : 0;
    faults += record.fault ? 1 : 0;
    us += record.us;
    for (const std::string& signature : record.signatures) ++signatures[signature];
    if (!record.skip_reason.empty()) ++skip_reasons[record.skip_reason];
  }
};

class Results {
 public:
  explicit Results(const GateOutcome& outcome)
      : outcome_(outcome), summary_(outcome.summary), target_(summary_.options.targets.front()) {}

  std::vector<JUnitCase> Run();

 private:
  void AddShown(const std::string& group, const std::string& name, const Shown& shown);
  void AddKnown();
  // Adds what concerns the whole run: whether enough was judged, and why something was not looked at.
  void AddRun();
  // Returns what is known of a signature, and whether it is accepted. A finding that was seen only once
  // has a signature of its own.
  std::string Describe(const std::string& signature, int64_t cases, bool* accepted) const;
  const KnownFinding& Known(size_t i) const { return summary_.options.known[i]; }

  const GateOutcome& outcome_;
  const CampaignSummary& summary_;
  const std::string& target_;
  std::vector<JUnitCase> results_;
};

std::string Results::Describe(const std::string& signature, int64_t cases, bool* accepted) const {
  std::string text;
  *accepted = true;
  const auto describe = [&](const Sighting& sighting) {
    if (sighting.signature != signature && sighting.signature != signature + std::string(kOnce)) return;
    if (!text.empty()) text += "; ";
    text += sighting.signature + Text(" in %" PRId64 " of its cases", cases);
    const auto known = summary_.accepted.find({sighting.target, sighting.signature});
    if (known != summary_.accepted.end()) {
      const KnownFinding& entry = Known(known->second);
      text += ", known: " + entry.reason + " (" + entry.link + ", " + entry.date + ")";
      return;
    }
    *accepted = false;
    if (!sighting.part_of.empty()) text += ", a part of " + sighting.part_of;
    text += Text(", first seen in case %" PRId64 ": ", sighting.item) + sighting.finding.what;
    if (sighting.kept && !sighting.kept->note.empty()) text += "; " + sighting.kept->note;
    if (!sighting.recipe.empty()) text += "; --recipe " + ShellQuote(sighting.recipe);
  };
  std::ranges::for_each(summary_.sightings, describe);
  std::ranges::for_each(summary_.parts, describe);
  *accepted = *accepted && !text.empty();
  return text.empty() ? signature : text;
}

void Results::AddShown(const std::string& group, const std::string& name, const Shown& shown) {
  JUnitCase result{
      .group = target_ + group, .name = name, .seconds = 1e-6 * static_cast<double>(shown.us)};
  bool all_accepted = true;
  for (const auto& [signature, cases] : shown.signatures) {
    bool accepted = false;
    result.message += (result.message.empty() ? "" : "\n") + Describe(signature, cases, &accepted);
    all_accepted = all_accepted && accepted;
  }
  if (shown.faults > 0) {
    result.outcome = Outcome::kError;
    result.message = Text("%" PRId64 " cases showed a fault of the harness", shown.faults);
  } else if (!shown.signatures.empty()) {
    result.outcome = all_accepted ? Outcome::kSkipped : Outcome::kFailed;
  } else if (shown.judged == 0) {
    result.outcome = Outcome::kSkipped;
    result.message = Text("none of %" PRId64 " cases was judged", shown.cases);
    for (const auto& [reason, cases] : shown.skip_reasons) {
      result.message += Text("\n%" PRId64 " skipped: ", cases) + reason;
    }
  }
  results_.push_back(std::move(result));
}

void Results::AddKnown() {
  for (size_t i = 0; i < summary_.options.known.size(); ++i) {
    const KnownFinding& entry = Known(i);
    JUnitCase result{.group = target_ + ".known", .name = entry.Name(), .outcome = Outcome::kSkipped};
    const std::string why = entry.reason + " (" + entry.link + ", " + entry.date + ")";
    if (std::ranges::count(outcome_.fixed, i) > 0) {
      result.outcome = Outcome::kFailed;
      result.message = "fixed: remove it from " + outcome_.known.string() + ": " + why;
    } else if (std::ranges::count(outcome_.not_seen, i) > 0) {
      result.message = "not seen: " + why;
    } else if (!entry.Concerns(target_)) {
      result.message = "of another target: " + why;
    } else {
      result.message = "known: " + why;
    }
    results_.push_back(std::move(result));
  }
}

void Results::AddRun() {
  for (const std::string& line : summary_.unreadable) {
    results_.push_back(
        {target_ + ".corpus", line.substr(0, line.find(": ")), Outcome::kError, line, 0});
  }
  JUnitCase run{.group = target_, .name = "gate"};
  const ExitStatus status = summary_.status;
  std::vector<std::string> slips = summary_.wrong_slips;
  slips.insert(slips.end(), summary_.suspect_slips.begin(), summary_.suspect_slips.end());
  if (!summary_.error.empty() || status == ExitStatus::kInterrupted || status == ExitStatus::kFault) {
    run.outcome = Outcome::kError;
    run.message = std::string(Name(status)) + (summary_.error.empty() ? "" : ": " + summary_.error);
  } else if (!slips.empty()) {
    run.outcome = Outcome::kFailed;
    run.message = "seen while another finding was shrunk:";
    // A file's name has no part of the folder, which a temporary one would change.
    for (const std::string& file : slips) {
      run.message += " " + std::filesystem::path(file).filename().string();
    }
  } else if (!summary_.targets.empty() &&
             summary_.targets.front().second.Thinness() == ExitStatus::kThin) {
    run.outcome = Outcome::kFailed;
    run.message = "thin: " + HowFewJudged(summary_.targets.front().second);
  }
  results_.push_back(std::move(run));
}

std::vector<JUnitCase> Results::Run() {
  AddRun();
  if (summary_.targets.empty()) return std::move(results_);
  std::string error;
  const std::optional<StoredCases> stored = ListStoredCases(summary_.options, &error);
  const std::unique_ptr<JournalReader> journal = JournalReader::Open(summary_.options.out, &error);
  if (!stored || !journal) {
    results_.push_back({target_, "journal", Outcome::kError, error, 0});
    return std::move(results_);
  }
  std::map<std::string, Shown> regimes;
  std::map<int64_t, Shown> cases;  // by the number of the stored case
  while (const std::optional<DoneItem> done = journal->Next(&error)) {
    (done->record.regime == kCorpusRegime ? cases[done->item] : regimes[done->record.regime])
        .Add(done->record);
  }
  for (const auto& [number, shown] : cases) {
    const std::filesystem::path& file = stored->files[static_cast<size_t>(number)];
    AddShown(".corpus", file.lexically_relative(summary_.options.corpus).string(), shown);
  }
  for (const auto& [regime, shown] : regimes) AddShown(".drawn", regime, shown);
  AddKnown();
  return std::move(results_);
}

}  // namespace

GateOutcome OutcomeOf(CampaignSummary summary, std::filesystem::path known) {
  GateOutcome outcome;
  outcome.known = std::move(known);
  using enum ExitStatus;
  const bool whole =
      summary.status == kClean || summary.status == kFindings || summary.status == kSuspect;
  const bool thin = !summary.targets.empty() && summary.targets.front().second.Thinness() == kThin;
  const bool says = whole && !thin && summary.unreadable.empty();
  (says ? outcome.fixed : outcome.not_seen) = NoLongerSeen(summary);
  if (!outcome.fixed.empty()) summary.status = Gravest({summary.status, kFindings});
  outcome.summary = std::move(summary);
  return outcome;
}

std::vector<JUnitCase> GateResults(const GateOutcome& outcome) { return Results(outcome).Run(); }

std::string GateText(const GateOutcome& outcome, std::string_view program) {
  const CampaignSummary& summary = outcome.summary;
  if (summary.targets.empty()) return {};
  const Tally& tally = summary.targets.front().second;
  std::string text;
  int64_t number = 0;
  for (const RankedFinding& finding : summary.ranking) {
    const std::vector<std::string> rest = NotAccepted(summary, finding);
    if (rest.empty()) continue;
    const std::string block = FindingBlock(finding, ++number, WhyOf(finding.sighting.regime), program,
                                           summary.options.out, false);
    text += "\n" + block;
    if (rest.size() < finding.parts.size() + 1) text += "  accepted but for " + Joined(rest) + "\n";
    text += "\n";
  }
  text += Text("%" PRId64 " cases: %" PRId64 " pass, %" PRId64 " wrong, %" PRId64 " suspect, %" PRId64
               " skipped, %" PRId64 " vacuous\n",
               tally.cases, tally.pass, tally.fail, tally.suspect, tally.skipped, tally.vacuous);
  text += Text("the arbiter was asked about %" PRId64 " elements%s\n", tally.arbitrated,
               tally.arbitrated > 0 && tally.faults == 0 ? " and agrees on each" : "");
  if (tally.retried > 0) {
    text += Text("%" PRId64 " cases were run twice because a worker died or passed its deadline\n",
                 tally.retried);
  }
  if (tally.Thinness() == ExitStatus::kThin) {
    text += "too little was judged to call it clean: " + HowFewJudged(tally) + "\n";
  }
  text += NotesText(summary);
  if (summary.status == ExitStatus::kInterrupted) text += "interrupted; run it again\n";
  const auto name = [&](size_t i) {
    return outcome.known.string() + Text(": known[%zu], ", i) + summary.options.known[i].Name();
  };
  for (const size_t i : outcome.fixed) {
    text += "fixed: " + name(i) + ": no case shows it any more: remove it\n";
  }
  for (const size_t i : outcome.not_seen) {
    text += "not seen: " + name(i) + ": too little was looked at to call it fixed\n";
  }
  return text;
}

}  // namespace plumbline::fuzz

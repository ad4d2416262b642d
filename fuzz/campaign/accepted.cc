// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/accepted.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/campaign/journal.h"
#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

// Shrinking takes a second where a case takes a millisecond.
constexpr size_t kMostShrunk = 16;

// Returns the bucket of a sighting's stored case; empty if it has none.
std::string BucketIn(const Sighting& sighting, const CampaignOptions& options) {
  if (!sighting.kept || sighting.kept->file.empty()) return {};
  std::string ignored;
  const std::optional<Case> c = ReadCase(options.out / sighting.kept->file, &ignored);
  return c ? c->bucket.id : std::string();
}

class OneBucket {
 public:
  OneBucket(const Plan& plan, Search* search, const std::atomic<bool>& interrupt,
            const CampaignSummary& summary)
      : plan_(plan), search_(*search), interrupt_(interrupt), summary_(summary) {}

  // Returns the signatures of a finding that are accepted by a bucket.
  std::set<std::string> SignaturesOf(const RankedFinding& finding) const;
  // Returns an empty text if the other cases that show one of these are of accepted buckets, else why
  // the finding is not accepted.
  std::string WhyNot(const Sighting& finding, const std::set<std::string>& signatures);

 private:
  struct Shown {
    int64_t item = 0;
    std::string signature;  // the worst of those that are asked about
  };
  std::vector<Shown> Others(const Sighting& finding, const std::set<std::string>& signatures,
                            std::string* error) const;
  std::optional<FailingProblem> StartOf(int64_t item, Finding finding);
  // Returns nullopt if the signature is not seen on the case again.
  std::optional<Pursued> Shrunk(const Shown& shown, CaseRunner* runner);

  const Plan& plan_;
  Search& search_;
  const std::atomic<bool>& interrupt_;
  const CampaignSummary& summary_;
};

std::set<std::string> OneBucket::SignaturesOf(const RankedFinding& finding) const {
  std::set<std::string> signatures(finding.parts.begin(), finding.parts.end());
  signatures.insert(finding.sighting.signature);
  std::erase_if(signatures, [&](const std::string& signature) {
    const auto accepted = summary_.accepted.find({finding.sighting.target, signature});
    return accepted == summary_.accepted.end() ||
           summary_.options.known[accepted->second].bucket.empty();
  });
  return signatures;
}

std::vector<OneBucket::Shown> OneBucket::Others(const Sighting& finding,
                                                const std::set<std::string>& signatures,
                                                std::string* error) const {
  std::vector<Shown> others;
  const std::unique_ptr<JournalReader> journal = JournalReader::Open(summary_.options.out, error);
  if (!journal) return others;
  while (const std::optional<DoneItem> done = journal->Next(error)) {
    if (done->item == finding.item) continue;
    const auto shown = std::ranges::find_if(
        done->record.signatures, [&](const std::string& s) { return signatures.contains(s); });
    if (shown != done->record.signatures.end()) others.push_back({done->item, *shown});
  }
  return others;
}

std::optional<FailingProblem> OneBucket::StartOf(int64_t item, Finding finding) {
  const Plan::Place place = plan_.At(item);
  if (place.phase == Phase::kCorpus) {
    std::string unreadable;
    std::optional<Case> c = ReadCase(plan_.CorpusFile(place.number), &unreadable);
    if (!c) return std::nullopt;
    return StartFrom(*std::move(c), std::move(finding));
  }
  const Recipe recipe = search_.Draw(item);
  return FailingProblem{.problem = Expand(recipe),
                        .finding = std::move(finding),
                        .recipe = Format(recipe),
                        .drawn_by = WhyOf(recipe.regime),
                        .seed = recipe.seed};
}

std::optional<Pursued> OneBucket::Shrunk(const Shown& shown, CaseRunner* runner) {
  std::optional<FailingProblem> start = StartOf(shown.item, {});
  if (!start) return std::nullopt;
  runner->Renew();
  Request request = RequestFor(start->problem, start->seed);
  request.tell_apart = shown.signature.find(kUnexplained) != std::string::npos;
  const Judged judged = runner->RunAndConfirm(request);
  const Finding* seen = FindSignature(judged.result, shown.signature);
  if (seen == nullptr) return std::nullopt;
  start->finding = *seen;
  PursuitOptions limits;
  limits.tries = summary_.options.shrink_tries;
  Pursued pursued = Pursue(*start, runner, limits);
  if (pursued.kind != Judged::Kind::kJudged) return std::nullopt;
  return pursued;
}

std::string OneBucket::WhyNot(const Sighting& finding, const std::set<std::string>& signatures) {
  const CampaignOptions& options = summary_.options;
  std::string error;
  const std::vector<Shown> others = Others(finding, signatures, &error);
  if (!error.empty()) return error;
  if (others.size() > kMostShrunk) {
    return "its bucket is accepted, but " + std::to_string(others.size()) +
           " other cases show it, and at most " + std::to_string(kMostShrunk) +
           " are shrunk to see whether theirs are: accept its signatures instead";
  }
  WorkerSpec spec;
  spec.target = finding.target;
  spec.program = options.program;
  spec.log = options.out / "logs" / "one-bucket.log";
  spec.memory = options.worker_memory;
  spec.first_call = options.FirstCall();
  CaseRunner runner(std::move(spec), options.GetCaseTimeout(), &interrupt_);
  for (const Shown& shown : others) {
    const std::optional<Pursued> pursued = Shrunk(shown, &runner);
    const std::string which = "its bucket is accepted, but case " + std::to_string(shown.item);
    if (!pursued) return which + " does not show " + shown.signature + " again";
    const Case& stored = pursued->stored;
    if (Accepting(options.known, finding.target, shown.signature, stored.bucket.id)) continue;
    const std::string name = "findings/" + CaseFileName(stored);
    if (!WriteCase(options.out / name, stored, &error)) return error;
    return which + " is of another, " + stored.bucket.id + ": " + name;
  }
  return {};
}

}  // namespace

std::map<SightingKey, size_t> AcceptedOf(const CampaignSummary& summary) {
  const CampaignOptions& options = summary.options;
  std::map<SightingKey, const Sighting*> all;
  for (const auto* list : {&summary.sightings, &summary.parts}) {
    for (const Sighting& sighting : *list) all[{sighting.target, sighting.signature}] = &sighting;
  }
  std::map<SightingKey, size_t> accepted;
  for (const auto& [key, sighting] : all) {
    std::string bucket = BucketIn(*sighting, options);
    // A part without a case of its own has that of the sighting whose small problem shows it.
    const auto whole = all.find({sighting->target, sighting->part_of});
    if (bucket.empty() && whole != all.end() && whole->second->kept &&
        std::ranges::count(whole->second->kept->cause.also, sighting->signature) > 0) {
      bucket = BucketIn(*whole->second, options);
    }
    const auto entry = Accepting(options.known, sighting->target, sighting->signature, bucket);
    if (entry) accepted.emplace(key, *entry);
  }
  return accepted;
}

void KeepOneBucket(const Plan& plan, Search* search, const std::atomic<bool>& interrupt,
                   CampaignSummary* summary) {
  OneBucket one(plan, search, interrupt, *summary);
  for (RankedFinding& finding : summary->ranking) {
    const std::set<std::string> signatures = one.SignaturesOf(finding);
    if (signatures.empty()) continue;
    const std::string& target = finding.sighting.target;
    const std::string why = one.WhyNot(finding.sighting, signatures);
    if (why.empty()) continue;
    for (const std::string& signature : signatures) summary->accepted.erase({target, signature});
    const auto note = [&](Sighting* sighting) {
      if (!sighting->kept) return;
      std::string& text = sighting->kept->note;
      text += (text.empty() ? "" : "; ") + why;
    };
    note(&finding.sighting);
    for (Sighting& same : summary->sightings) {
      if (same.target == target && same.signature == finding.sighting.signature) note(&same);
    }
  }
}

}  // namespace plumbline::fuzz

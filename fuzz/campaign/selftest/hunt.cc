// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/selftest/hunt.h"

#include <optional>
#include <utility>

#include "fuzz/campaign/campaign.h"
#include "fuzz/cases/file.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

// A race that shows once in ten runs is seen in twenty with a chance of seven eighths.
constexpr int kAttemptsAtARace = 20;

// Returns an empty text if the request, judged in full, still shows the signature; else why not.
std::string Reproduce(const Request& request, const std::string& signature, bool race,
                      CaseRunner* runner) {
  for (int attempt = 0; attempt < (race ? kAttemptsAtARace : 1); ++attempt) {
    const Judged judged = runner->RunAndConfirm(request);
    if (judged.kind == Judged::Kind::kInterrupted) return "interrupted";
    if (judged.kind == Judged::Kind::kUnavailable) return judged.error;
    if (!judged.result.harness_fault.empty()) return judged.result.harness_fault;
    if (FindSignature(judged.result, signature) != nullptr) return {};
    if (race && !judged.result.findings.empty()) return {};
  }
  return "does not show " + signature;
}

// Returns an empty text if the sighting is reproduced by its file and, as `fuzz --recipe` runs it, by
// its line.
std::string ReplayBoth(const Case& c, const Sighting& sighting, bool race, CaseRunner* runner) {
  std::string why = Reproduce(RequestForStored(c), sighting.signature, race, runner);
  if (!why.empty()) return "replay of the file: " + why;
  Recipe recipe;
  if (!Parse(sighting.recipe, &recipe, &why)) return "recipe: " + why;
  why = Reproduce(RequestFor(sighting.recipe, recipe.seed), sighting.signature, race, runner);
  return why.empty() ? why : "replay of the recipe: " + why;
}

}  // namespace

Kill Hunt(CampaignOptions options, bool race, const std::atomic<bool>& interrupt) {
  Kill kill;
  kill.target = options.targets.front();
  kill.seed = options.seed;
  options.stop_after = 1;
  options.jobs = 1;
  const CampaignSummary summary = RunCampaign(options, interrupt);
  kill.campaign = summary.status;
  for (const auto& [name, tally] : summary.targets) {
    kill.cases = tally.cases;
    kill.judged = tally.Judged();
  }
  kill.seconds = std::chrono::duration<double>(summary.elapsed).count();
  if (summary.status != ExitStatus::kFindings && summary.status != ExitStatus::kSuspect) {
    kill.trouble =
        summary.error.empty() ? "not found (" + std::string(Name(summary.status)) + ")" : summary.error;
    return kill;
  }
  kill.sighting = summary.sightings.front();
  kill.cases = kill.sighting.item + 1;
  kill.seconds = kill.sighting.seconds;
  if (!kill.sighting.kept) {
    kill.trouble = "found, but not stored";
    return kill;
  }
  std::string error;
  const std::optional<Case> c = ReadCase(options.out / kill.sighting.kept->file, &error);
  if (!c) {
    kill.trouble = "stored case: " + error;
    return kill;
  }
  kill.bucket = c->bucket;
  CaseRunner runner({.target = kill.target, .program = options.program}, options.GetCaseTimeout(),
                    &interrupt);
  kill.trouble = ReplayBoth(*c, kill.sighting, race, &runner);
  return kill;
}

Json ToJson(const Kill& kill) {
  Json json = Json::Object{{"target", kill.target},
                           // A seed is a string, since it has 64 bits.
                           {"seed", std::to_string(kill.seed)},
                           {"killed", kill.killed()},
                           {"cases", kill.cases},
                           {"seconds", kill.seconds}};
  if (!kill.trouble.empty()) json["trouble"] = kill.trouble;
  if (!kill.allowed.empty()) json["allowed"] = kill.allowed;
  if (kill.found()) json["sighting"] = ToJson(kill.sighting);
  if (!kill.bucket.id.empty()) json["bucket"] = ToJson(kill.bucket);
  return json;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <system_error>

#include "fuzz/campaign.h"
#include "fuzz/case_file.h"
#include "fuzz/case_runner.h"
#include "fuzz/commands.h"
#include "fuzz/pursuit.h"
#include "fuzz/recipe.h"
#include "fuzz/report_text.h"
#include "fuzz/target.h"
#include "fuzz/text.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kMutant = "mutant:";

struct Kill {
  std::string target;
  ExitStatus campaign = ExitStatus::kClean;
  std::string trouble;  // why it does not count as killed; empty if it does
  int64_t cases = 0;    // until the first that failed, it included
  double seconds = 0;   // until then
  Sighting sighting;
};

// Whether the request, judged in full, still shows the signature.
std::string Reproduce(const Request& request, const std::string& signature, CaseRunner* runner) {
  const Judged judged = runner->RunAndConfirm(request);
  if (judged.kind == Judged::Kind::kInterrupted) return "interrupted";
  if (judged.kind == Judged::Kind::kUnavailable) return judged.error;
  if (!judged.result.harness_fault.empty()) return judged.result.harness_fault;
  return FindSignature(judged.result, signature) != nullptr ? "" : "does not show " + signature;
}

Kill Hunt(const std::string& target, const SelftestCommand& command, const std::filesystem::path& out,
          const Console& console) {
  Kill kill;
  kill.target = target;
  CampaignOptions options;
  options.targets = {target};
  options.seed = command.seed;
  options.budget = command.budget;
  options.stop_after = 1;
  options.jobs = 1;  // so that the case which kills does not depend on timing
  options.out = out / target.substr(kMutant.size());
  options.program = console.worker_program;
  CampaignObserver silent;
  const CampaignSummary summary = RunCampaign(options, *console.interrupt, &silent);
  kill.campaign = summary.status;
  for (const auto& [name, tally] : summary.targets) kill.cases = tally.cases;
  if (summary.status != ExitStatus::kFindings) {
    kill.trouble =
        summary.error.empty() ? "not found (" + std::string(Name(summary.status)) + ")" : summary.error;
    return kill;
  }
  kill.sighting = summary.sightings.front();
  kill.cases = kill.sighting.item + 1;
  kill.seconds = kill.sighting.seconds;

  WorkerSpec spec;
  spec.target = target;
  spec.program = console.worker_program;
  CaseRunner runner(std::move(spec), options.GetCaseTimeout(), console.interrupt);
  std::string error;
  const std::optional<Case> c = ReadCase(options.out / kill.sighting.kept->file, &error);
  if (!c) {
    kill.trouble = "stored case: " + error;
    return kill;
  }
  if (!kill.sighting.kept->note.empty()) kill.trouble = kill.sighting.kept->note;
  const std::string& signature = kill.sighting.signature;
  if (std::string why = Reproduce(RequestFor(c->problem, SeedOf(*c)), signature, &runner);
      !why.empty()) {
    kill.trouble = "replay of the file: " + why;
  }
  // As `fuzz --recipe` runs it: from the line alone.
  Recipe recipe;
  if (!Parse(kill.sighting.recipe, &recipe, &error)) {
    kill.trouble = "recipe: " + error;
  } else if (std::string why =
                 Reproduce(RequestFor(kill.sighting.recipe, recipe.seed), signature, &runner);
             !why.empty()) {
    kill.trouble = "replay of the recipe: " + why;
  }
  return kill;
}

Json ToJson(const Kill& kill) {
  Json json;
  json["target"] = kill.target;
  json["killed"] = kill.trouble.empty();
  json["cases"] = kill.cases;
  if (!kill.trouble.empty()) json["trouble"] = kill.trouble;
  if (!kill.sighting.signature.empty()) {
    json["seconds"] = kill.seconds;
    json["sighting"] = ToJson(kill.sighting);
  }
  return json;
}

std::vector<std::string> Row(const Kill& kill) {
  std::vector<std::string> row = {kill.target,
                                  kill.trouble.empty() ? "killed" : "ALIVE: " + kill.trouble};
  if (!kill.sighting.kept) return row;
  const StoredFinding& kept = *kill.sighting.kept;
  for (std::string cell : {kill.sighting.regime, kill.sighting.signature, std::to_string(kill.cases),
                           Text("%.2f", kill.seconds), std::to_string(kept.values_before),
                           std::to_string(kept.values_after), Text("%.2f", kept.seconds)}) {
    row.push_back(std::move(cell));
  }
  return row;
}

}  // namespace

ExitStatus CommandSelftest(const SelftestCommand& command, const Console& console) {
  std::vector<std::string> mutants;
  std::string names;
  const std::string only = command.mutant.empty() || command.mutant.starts_with(kMutant)
                               ? command.mutant
                               : std::string(kMutant) + command.mutant;
  for (const BuiltIn& built_in : BuiltInTargets()) {
    if (!built_in.name.starts_with(kMutant)) continue;
    names += " " + built_in.name;
    if (only.empty() || built_in.name == only) mutants.push_back(built_in.name);
  }
  if (mutants.empty()) {
    console.Complain("mutant '" + command.mutant + "' is unknown; there are" + names);
    return console.Finish(ExitStatus::kUsage, 0, 0);
  }
  const bool temporary = command.out.empty();
  const std::filesystem::path out = temporary ? std::filesystem::temp_directory_path() /
                                                    ("plumb-selftest-" + std::to_string(getpid()))
                                              : command.out;
  console.Say("each mutant is a planted defect: a blind campaign of at most " + Format(command.budget) +
              " must find it, seed " + std::to_string(command.seed) + "\n");

  std::vector<std::vector<std::string>> rows = {{"mutant", "outcome", "regime", "check", "cases",
                                                 "seconds", "values", "shrunk to", "in seconds"}};
  Json report;
  int64_t cases = 0, findings = 0;
  bool all_killed = true, fault = false;
  for (const std::string& mutant : mutants) {
    const Kill kill = Hunt(mutant, command, out, console);
    if (console.interrupt->load())
      return console.Finish(ExitStatus::kInterrupted, cases, findings, std::move(report));
    console.Say(mutant + (kill.trouble.empty() ? Text(": killed after %" PRId64 " cases\n", kill.cases)
                                               : ": ALIVE: " + kill.trouble + "\n"));
    cases += kill.cases;
    findings += kill.sighting.signature.empty() ? 0 : 1;
    all_killed = all_killed && kill.trouble.empty();
    fault = fault || kill.campaign == ExitStatus::kFault;
    rows.push_back(Row(kill));
    report["mutants"].Append(ToJson(kill));
  }
  std::string host_line;
  bool host_clean = true;
  if (only.empty()) {
    CampaignOptions options;
    options.targets = {"host"};
    options.seed = command.seed;
    options.budget = command.budget;
    options.out = out / "host";
    options.program = console.worker_program;
    CampaignObserver silent;
    const CampaignSummary summary = RunCampaign(std::move(options), *console.interrupt, &silent);
    if (summary.status == ExitStatus::kInterrupted) {
      return console.Finish(ExitStatus::kInterrupted, cases, findings, std::move(report));
    }
    host_clean = summary.status == ExitStatus::kClean;
    fault = fault || summary.status == ExitStatus::kFault;
    for (const auto& [name, tally] : summary.targets) {
      cases += tally.cases;
      host_line = Text("host: %s after %" PRId64 " cases\n", std::string(Name(summary.status)).c_str(),
                       tally.cases);
    }
    if (!summary.error.empty()) host_line += "host: " + summary.error + "\n";
    report["host"] = ToJson(summary);
  }
  console.Say("\n" + Table(rows) + host_line);
  // A mutant that was found is this command's success: the findings that count against it are those
  // that should not be there, and the mutants that nothing was found in.
  const bool clean = all_killed && host_clean && !fault;
  if (temporary && clean) {
    std::error_code ignored;
    std::filesystem::remove_all(out, ignored);
  } else {
    console.Say("everything lies in " + out.string() + "\n");
  }
  const ExitStatus status = fault   ? ExitStatus::kFault
                            : clean ? ExitStatus::kClean
                                    : ExitStatus::kFindings;
  return console.Finish(status, cases, findings, std::move(report));
}

}  // namespace plumbline::fuzz

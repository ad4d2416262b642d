// SPDX-License-Identifier: Apache-2.0
#include "fuzz/compare/comparison.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/base/units.h"
#include "fuzz/target/contracts.h"
#include "fuzz/triage/severity.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array kStatuses = {
    ExitStatus::kClean,       ExitStatus::kFindings,    ExitStatus::kUsage,   ExitStatus::kFault,
    ExitStatus::kUnavailable, ExitStatus::kInterrupted, ExitStatus::kSuspect, ExitStatus::kThin};

// One line for each member of the capabilities that a campaign was given: what the target lacks.
std::vector<std::string> LimitsOf(const CampaignOptions& options) {
  std::string error;
  const std::optional<Json> json =
      options.capabilities.empty() ? std::nullopt : Json::Parse(options.capabilities.front(), &error);
  const Json::Object* const members = json ? json->as_object() : nullptr;
  std::vector<std::string> limits;
  if (members == nullptr) return limits;
  for (const auto& [key, value] : *members) limits.push_back(key + " " + value.Dump());
  return limits;
}

}  // namespace

const ComparedTarget* TargetComparison::Find(std::string_view target) const {
  const auto found = std::ranges::find(targets, target, &ComparedTarget::target);
  return found != targets.end() ? &*found : nullptr;
}

bool TargetComparison::SameCases(const TargetComparison& other) const {
  return plumb == other.plumb && seed == other.seed && cases == other.cases &&
         problems == other.problems && contract == other.contract && yardstick == other.yardstick;
}

ComparedTarget OfCampaign(const std::string& target, const CampaignSummary& summary,
                          std::string_view folder) {
  ComparedTarget out;
  out.target = target;
  out.verdict = Name(summary.status);
  if (!summary.options.targets.empty()) {
    out.held_to = SplitTarget(summary.options.targets.front()).second;
  }
  if (summary.targets.empty()) {
    out.unavailable = summary.error.empty() ? "its campaign did not begin" : summary.error;
    return out;
  }
  const Tally& tally = summary.targets.front().second;
  out.cases = tally.cases;
  out.judged = tally.Judged();
  out.skipped = SkippedOf(tally.skip_reasons);
  out.conventions = ConventionsOf(tally);
  out.limits = LimitsOf(summary.options);
  for (const RankedFinding& finding : summary.ranking) {
    const Sighting& sighting = finding.sighting;
    ComparedFinding& to = out.findings.emplace_back();
    to.signature = sighting.signature;
    to.severity = Name(finding.severity);
    to.what = sighting.kept ? sighting.kept->finding.what : sighting.finding.what;
    to.shortcut = finding.shortcut;
    to.suspect = finding.severity == Severity::kSuspect;
    if (sighting.kept) to.file = std::string(folder) + "/" + sighting.kept->file;
  }
  for (const auto* list : {&summary.sightings, &summary.parts}) {
    for (const Sighting& sighting : *list) {
      const FindingKind kind = sighting.finding.kind;
      if (kind == FindingKind::kNondeterministic) out.deterministic = false;
      if (kind == FindingKind::kBatchVariant) out.batch_invariant = false;
      if (kind == FindingKind::kNonFinite || kind == FindingKind::kSign ||
          kind == FindingKind::kNotZero) {
        out.special_rows = false;
      }
    }
  }
  for (const Inference& inference : summary.options.inferred) {
    for (const InferredShortcut& shortcut : inference.shortcuts) out.shortcuts.push_back(shortcut.what);
  }
  return out;
}

ExitStatus StatusOf(const TargetComparison& comparison) {
  ExitStatus status = ExitStatus::kClean;
  for (const ComparedTarget& target : comparison.targets) {
    const auto of =
        std::ranges::find(kStatuses, target.verdict, [](ExitStatus each) { return Name(each); });
    ExitStatus mine = of != kStatuses.end() ? *of : ExitStatus::kFault;
    if (!target.unavailable.empty()) mine = ExitStatus::kUnavailable;
    if (mine == ExitStatus::kClean && !target.shortcuts.empty()) mine = ExitStatus::kFindings;
    status = Gravest({status, mine});
  }
  return status;
}

void Fields(FieldVisitor& io, ComparedFinding& f) {
  io("signature", f.signature);
  io("severity", f.severity);
  io("what", f.what);
  io.IfSet("file", f.file);
  io.IfSet("shortcut", f.shortcut);
  io.IfSet("suspect", f.suspect);
}

void Fields(FieldVisitor& io, ComparedTarget& t) {
  io("target", t.target);
  io.IfSet("held_to", t.held_to);
  io.IfSet("unavailable", t.unavailable);
  io("verdict", t.verdict);
  io("cases", t.cases);
  io("judged", t.judged);
  io.IfSet("findings", t.findings);
  io.IfSet("shortcuts", t.shortcuts);
  io.IfSet("conventions", t.conventions);
  io.IfSet("limits", t.limits);
  io.IfSet("skipped", t.skipped);
  io("deterministic", t.deterministic);
  io("batch_invariant", t.batch_invariant);
  io("special_rows", t.special_rows);
  io("accuracy", t.accuracy);
}

void Fields(FieldVisitor& io, TargetComparison& c) {
  io("plumb", c.plumb);
  io.AsText("seed", c.seed, std::to_string(c.seed), ParseSeed);
  io("cases", c.cases);
  io("problems", c.problems);
  io.IfSet("contract", c.contract);
  io("yardstick", c.yardstick);
  io("targets", c.targets);
}

}  // namespace plumbline::fuzz

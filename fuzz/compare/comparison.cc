// SPDX-License-Identifier: Apache-2.0
#include "fuzz/compare/comparison.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "fuzz/base/json.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/base/units.h"
#include "fuzz/target/contracts.h"
#include "fuzz/triage/severity.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 3> kHolding = {"yes", "no", "not checked"};
constexpr std::array kStatuses = {
    ExitStatus::kClean,       ExitStatus::kFindings,    ExitStatus::kUsage,   ExitStatus::kFault,
    ExitStatus::kUnavailable, ExitStatus::kInterrupted, ExitStatus::kSuspect, ExitStatus::kThin};

std::optional<ExitStatus> StatusNamed(std::string_view name) {
  const auto found = std::ranges::find(kStatuses, name, [](ExitStatus status) { return Name(status); });
  return found != kStatuses.end() ? std::optional(*found) : std::nullopt;
}

// The capabilities that a campaign was given: what differs from everything.
Json CapabilitiesOf(const CampaignOptions& options) {
  std::string error;
  if (options.capabilities.empty()) return {};
  return Json::Parse(options.capabilities.front(), &error).value_or(Json());
}

std::vector<std::string> LimitsOf(const Json& capabilities) {
  std::vector<std::string> limits;
  if (const Json::Object* const members = capabilities.as_object()) {
    for (const auto& [key, value] : *members) limits.push_back(key + " " + value.Dump());
  }
  return limits;
}

// Whether a target keeps what it promises, unless `capability` says that it does not.
Holding HoldingOf(const Json& capabilities, std::string_view capability, int64_t judged) {
  const Json* const promised = capabilities.Find(capability);
  const bool declined = promised != nullptr && promised->as_bool() != nullptr && !*promised->as_bool();
  return judged == 0 || declined ? Holding::kNotChecked : Holding::kYes;
}

ComparedFinding FindingOf(const RankedFinding& finding, const std::string& folder) {
  const Sighting& sighting = finding.sighting;
  ComparedFinding of;
  of.signature = sighting.signature;
  of.severity = Name(finding.severity);
  of.what = sighting.kept ? sighting.kept->finding.what : sighting.finding.what;
  of.shortcut = finding.shortcut;
  of.suspect = finding.severity == Severity::kSuspect;
  if (sighting.kept && !sighting.kept->file.empty()) of.file = folder + "/" + sighting.kept->file;
  return of;
}

// A case that was wrong while another finding was shrunk.
ComparedFinding SlipOf(const std::string& file, bool suspect) {
  ComparedFinding of;
  of.signature = "slip";
  of.severity = Name(Severity::kSlip);
  of.what = "seen while another finding was shrunk: " + file;
  of.suspect = suspect;
  return of;
}

}  // namespace

bool ComparedTarget::Complete() const {
  const std::optional<ExitStatus> status = StatusNamed(verdict);
  return accuracy.incomplete.empty() && status && *status != ExitStatus::kUnavailable &&
         *status != ExitStatus::kFault && *status != ExitStatus::kInterrupted &&
         *status != ExitStatus::kUsage;
}

ComparedTarget* TargetComparison::Find(std::string_view target) {
  const auto found = std::ranges::find(targets, target, &ComparedTarget::target);
  return found != targets.end() ? &*found : nullptr;
}

bool TargetComparison::SameCases(const TargetComparison& other) const {
  return plumb == other.plumb && seed == other.seed && cases == other.cases &&
         problems == other.problems && palette == other.palette && contract == other.contract &&
         yardstick == other.yardstick && infer == other.infer;
}

std::string FolderOfTarget(std::string_view target) {
  std::string letters;
  for (const char c : target) letters += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  constexpr size_t kMost = 80;
  return letters.substr(0, kMost) + Text("-%08x", static_cast<unsigned>(Mix(0, target)));
}

ComparedTarget OfCampaign(const std::string& target, const CampaignSummary& summary) {
  ComparedTarget out;
  out.target = target;
  out.folder = FolderOfTarget(target);
  out.verdict = Name(summary.status);
  out.error = summary.error;
  if (!summary.options.targets.empty()) {
    out.held_to = SplitTarget(summary.options.targets.front()).second;
  }
  for (const Inference& inference : summary.options.inferred) {
    if (out.error.empty() && !inference.incomplete.empty()) {
      out.error = "nothing was inferred: " + inference.incomplete;
    }
    for (const InferredShortcut& shortcut : inference.shortcuts) out.shortcuts.push_back(shortcut.what);
  }
  if (summary.targets.empty()) return out;
  const Tally& tally = summary.targets.front().second;
  const Json capabilities = CapabilitiesOf(summary.options);
  out.cases = tally.cases;
  out.judged = tally.Judged();
  out.skipped = SkippedOf(tally.skip_reasons);
  out.conventions = ConventionsOf(tally);
  out.limits = LimitsOf(capabilities);
  out.deterministic = HoldingOf(capabilities, "deterministic", out.judged);
  out.batch_invariant = HoldingOf(capabilities, "batch_invariant", out.judged);
  out.special_rows = HoldingOf(capabilities, "", out.judged);
  for (const RankedFinding& finding : summary.ranking) {
    out.findings.push_back(FindingOf(finding, out.folder));
  }
  for (const std::string& file : summary.wrong_slips) out.findings.push_back(SlipOf(file, false));
  for (const std::string& file : summary.suspect_slips) out.findings.push_back(SlipOf(file, true));
  for (const auto* list : {&summary.sightings, &summary.parts}) {
    for (const Sighting& sighting : *list) {
      const FindingKind kind = sighting.finding.kind;
      if (kind == FindingKind::kNondeterministic) out.deterministic = Holding::kNo;
      if (kind == FindingKind::kBatchVariant) out.batch_invariant = Holding::kNo;
      if (kind == FindingKind::kNonFinite || kind == FindingKind::kSign ||
          kind == FindingKind::kNotZero) {
        out.special_rows = Holding::kNo;
      }
    }
  }
  return out;
}

ExitStatus StatusOf(const TargetComparison& comparison) {
  ExitStatus status = ExitStatus::kClean;
  for (const ComparedTarget& target : comparison.targets) {
    const ExitStatus hunt = StatusNamed(target.verdict).value_or(ExitStatus::kFault);
    const bool found =
        !target.accuracy.failed.empty() || (hunt == ExitStatus::kClean && !target.shortcuts.empty());
    status = Gravest({status, hunt, found ? ExitStatus::kFindings : ExitStatus::kClean,
                      target.accuracy.incomplete.empty() ? ExitStatus::kClean : ExitStatus::kThin});
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
  io("folder", t.folder);
  io.IfSet("held_to", t.held_to);
  io("verdict", t.verdict);
  io.IfSet("error", t.error);
  io("cases", t.cases);
  io("judged", t.judged);
  io.IfSet("findings", t.findings);
  io.IfSet("shortcuts", t.shortcuts);
  io.IfSet("conventions", t.conventions);
  io.IfSet("limits", t.limits);
  io.IfSet("skipped", t.skipped);
  io("deterministic", t.deterministic, kHolding);
  io("batch_invariant", t.batch_invariant, kHolding);
  io("special_rows", t.special_rows, kHolding);
  io("accuracy", t.accuracy);
}

void Fields(FieldVisitor& io, TargetComparison& c) {
  io("plumb", c.plumb);
  io.AsText("seed", c.seed, std::to_string(c.seed), ParseSeed);
  io("cases", c.cases);
  io("problems", c.problems);
  io("palette", c.palette);
  io.IfSet("contract", c.contract);
  io("yardstick", c.yardstick);
  io("infer", c.infer);
  io("verdict", c.verdict);
  io("targets", c.targets);
}

}  // namespace plumbline::fuzz

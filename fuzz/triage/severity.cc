// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/severity.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "fuzz/base/names.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 11> kSeverities = {
    "crash",         "hang",        "memory",   "non-finite", "wrong", "suspect", "nondeterministic",
    "batch-variant", "consistency", "relation", "slip"};
constexpr std::array<std::string_view, 6> kDataFlow = {"lse",     "logprob",     "loss",
                                                       "entropy", "grad_hidden", "grad_weight"};

auto DataFlow(std::string_view output) {
  return std::ranges::find(kDataFlow, output) - kDataFlow.begin();
}

auto Rank(const Sighting& s) {
  return std::tuple(!s.reproduced, s.finding.suspect, SeverityOf(s.finding), DataFlow(s.finding.output),
                    std::string_view(s.signature));
}

}  // namespace

std::string_view Name(Severity severity) { return NameOf(severity, kSeverities); }

Severity SeverityOf(const Finding& finding) {
  if (finding.suspect) return Severity::kSuspect;
  switch (finding.kind) {
    case FindingKind::kCrash:
      return Severity::kCrash;
    case FindingKind::kHang:
      return Severity::kHang;
    case FindingKind::kGuardBand:
    case FindingKind::kInputWritten:
      return Severity::kMemory;
    case FindingKind::kNonFinite:
      return Severity::kNonFinite;
    case FindingKind::kNondeterministic:
      return Severity::kNondeterministic;
    case FindingKind::kBatchVariant:
      return Severity::kBatchVariant;
    case FindingKind::kConsistency:
      return Severity::kConsistency;
    case FindingKind::kRelation:
      return Severity::kRelation;
    case FindingKind::kBound:
    case FindingKind::kSign:
    case FindingKind::kNotZero:
    case FindingKind::kUnwritten:
    case FindingKind::kStatus:
    case FindingKind::kMagnitude:
      break;
  }
  return Severity::kWrong;
}

std::string OutputOf(std::string_view signature) {
  if (signature.ends_with(kOnce)) signature.remove_suffix(kOnce.size());
  const std::string_view last = signature.substr(signature.rfind(':') + 1);
  return std::string(std::ranges::find(kDataFlow, last) != kDataFlow.end() ? last : "");
}

bool Leads(const Sighting& a, const Sighting& b) { return Rank(a) < Rank(b); }

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/consistency_findings.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/consistency/consistency.h"

namespace plumbline::fuzz {
namespace {

bool Explained(const ConsistencyCheck& check, const std::vector<Finding>& findings) {
  const bool suspect = check.verdict == ConsistencyVerdict::kSuspect;
  return std::ranges::any_of(findings, [&](const Finding& f) {
    if (f.suspect && !suspect) return false;
    return std::ranges::any_of(ComparedOutputs(check.name),
                               [&](oracle::Output o) { return oracle::Name(o) == f.output; });
  });
}

Finding FindingOf(const ConsistencyCheck& check) {
  Finding f;
  f.kind = FindingKind::kConsistency;
  f.suspect = check.verdict == ConsistencyVerdict::kSuspect;
  f.relation = check.name;
  f.output = oracle::Name(check.output);
  f.row = check.row;
  f.column = check.column;
  f.got = check.left;
  f.bound = check.tolerance;
  f.tightness = check.left / check.tolerance;
  f.what = check.what + "; " + Number(check.left) + " is left, and " + Text("%.3g", check.tolerance) +
           " allowed" + (f.suspect ? ", by what is assumed of a contract that leaves keys out" : "");
  return f;
}

}  // namespace

ConsistencyReport CheckConsistencyInTiers(const Description& description,
                                          const kernel::Problem& problem,
                                          const kernel::Results& results,
                                          const ConsistencyOptions& options) {
  const auto wrong = [](const ConsistencyCheck& check) {
    return check.verdict == ConsistencyVerdict::kWrong;
  };
  ConsistencyReport report = CheckConsistency(problem, results, description.Assumed(), options);
  if (!description.assumptions.any() || std::ranges::none_of(report.checks, wrong)) return report;
  const ConsistencyReport declared = CheckConsistency(problem, results, description.contract, options);
  for (ConsistencyCheck& check : report.checks) {
    if (!wrong(check)) continue;
    const auto proven = std::ranges::find_if(declared.checks, [&](const ConsistencyCheck& other) {
      return other.name == check.name && other.output == check.output && wrong(other);
    });
    if (proven != declared.checks.end()) {
      check = *proven;
    } else {
      check.verdict = ConsistencyVerdict::kSuspect;
    }
  }
  return report;
}

void AddConsistencyFindings(const Description& description, const kernel::Problem& problem,
                            const kernel::Results& results, CaseResult* result) {
  if (!result->harness_fault.empty() || Planted(HarnessDefect::kConsistencyNotChecked)) return;
  std::vector<Finding> found;
  for (const ConsistencyCheck& check :
       CheckConsistencyInTiers(description, problem, results, {}).checks) {
    if (IsBroken(check) && !Explained(check, result->findings)) found.push_back(FindingOf(check));
  }
  std::ranges::move(found, std::back_inserter(result->findings));
}

}  // namespace plumbline::fuzz

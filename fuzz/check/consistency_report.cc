// SPDX-License-Identifier: Apache-2.0
#include "fuzz/check/consistency_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/consistency_findings.h"

namespace plumbline::fuzz {
namespace {

std::string PlaceOf(const ConsistencyCheck& check) {
  if (check.row < 0 && check.column < 0) return "-";
  std::string place = check.row < 0 ? "" : Text("row %" PRId64, check.row);
  if (check.column >= 0) {
    place += (place.empty() ? "" : ", ") + Text("column %" PRId64 " of H", check.column);
  }
  return place;
}

// Rows are named as in the dump.
void NameRows(const DumpSample& sample, ConsistencyReport* report) {
  for (ConsistencyCheck& check : report->checks) {
    if (check.row >= 0) check.row = sample.rows()[static_cast<size_t>(check.row)];
  }
}

}  // namespace

ConsistencyReport CheckDumpConsistency(const DumpSample& sample, const kernel::Results& results,
                                       const Description& description, std::optional<int64_t> counted,
                                       bool ran) {
  ConsistencyOptions options;
  options.counted_rows = counted;
  options.statistical = true;
  options.row_names = sample.rows();
  for (const oracle::Output o : oracle::kOutputs) {
    if (!ran && sample.dump().output(o)) {
      options.stored[static_cast<size_t>(o)] = sample.dump().output(o)->dtype;
    }
  }
  ConsistencyReport report = CheckConsistencyInTiers(description, sample.problem(), results, options);
  NameRows(sample, &report);
  return report;
}

std::vector<const ConsistencyCheck*> BrokenChecks(const ConsistencyReport& report) {
  std::vector<const ConsistencyCheck*> broken;
  for (const ConsistencyCheck& check : report.checks) {
    if (IsBroken(check)) broken.push_back(&check);
  }
  std::ranges::stable_sort(broken, [](const ConsistencyCheck* a, const ConsistencyCheck* b) {
    return a->verdict > b->verdict;
  });
  return broken;
}

std::string ConsistencyHeadline(const ConsistencyReport& report) {
  const std::vector<const ConsistencyCheck*> broken = BrokenChecks(report);
  if (broken.empty()) return {};
  const bool wrong = broken.front()->verdict == ConsistencyVerdict::kWrong;
  return (wrong ? "WRONG: " : "SUSPECT: ") + broken.front()->what + "\n";
}

std::string ConsistencyText(const ConsistencyReport& report) {
  std::vector<std::vector<std::string>> rows = {{"outputs against each other", "of", "compared", "left",
                                                 "usual", "allowed", "at worst", "verdict"}};
  for (const ConsistencyCheck& check : report.checks) {
    // A grid that values are off says nothing to a person.
    if (check.tolerance == 1 && check.verdict == ConsistencyVerdict::kHolds) continue;
    const bool says = check.verdict != ConsistencyVerdict::kSaysNothing;
    rows.push_back({std::string(check.name), std::string(oracle::Name(check.output)),
                    Text("%" PRId64, check.compared), says ? Text("%.3g", check.left) : "-",
                    says && std::isfinite(check.usual) ? Text("%.3g", check.usual) : "-",
                    says ? Text("%.3g", check.tolerance) : "-", PlaceOf(check),
                    std::string(Name(check.verdict))});
  }
  std::string text;
  if (rows.size() > 1) text = Table(rows) + "\n";
  for (const ConsistencyCheck* check : BrokenChecks(report)) {
    text += "inconsistent: " + check->what + "\n";
  }
  for (const std::string& line : report.left_out) text += "not checked: " + line + "\n";
  return text;
}

Json ConsistencyJson(const ConsistencyReport& report) {
  Json json;
  json["checks"] = Json(Json::Array{});
  for (const ConsistencyCheck& check : report.checks) {
    Json each;
    each["name"] = check.name;
    each["output"] = oracle::Name(check.output);
    each["verdict"] = Name(check.verdict);
    each["compared"] = check.compared;
    if (check.verdict != ConsistencyVerdict::kSaysNothing) {
      each["left"] = check.left;
      each["tolerance"] = check.tolerance;
      if (std::isfinite(check.usual)) each["usual"] = check.usual;
      if (check.row >= 0) each["row"] = check.row;
      if (check.column >= 0) each["column"] = check.column;
    }
    if (!check.what.empty()) each["what"] = check.what;
    json["checks"].Append(std::move(each));
  }
  json["left_out"] = Json::Array(report.left_out.begin(), report.left_out.end());
  return json;
}

}  // namespace plumbline::fuzz

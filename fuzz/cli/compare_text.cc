// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/compare_text.h"

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using Cells = std::vector<std::vector<std::string>>;

std::string NumberOr(int64_t count) { return count > 0 ? std::to_string(count) : "none"; }

// What was seen, where there was something to see: a hundred passes prove no more than that.
std::string SeenTo(const ComparedTarget& target, bool good) {
  return target.judged == 0 ? "?" : good ? "yes" : "no";
}

std::string FindingsTable(const TargetComparison& comparison) {
  Cells rows = {{"target", "verdict", "judged", "wrong", "suspect", "shortcuts", "deterministic",
                 "batch-invariant", "special rows", "time"}};
  double first = 0;
  for (const ComparedTarget& t : comparison.targets) {
    if (first == 0) first = t.accuracy.seconds;
    const auto suspect = std::ranges::count_if(t.findings, &ComparedFinding::suspect);
    const auto wrong = static_cast<int64_t>(t.findings.size()) - suspect;
    if (!t.unavailable.empty()) {
      rows.push_back({t.target, "not available"});
      continue;
    }
    rows.push_back({t.target, t.verdict, Text("%" PRId64 " of %" PRId64, t.judged, t.cases),
                    NumberOr(wrong), NumberOr(suspect),
                    NumberOr(static_cast<int64_t>(t.shortcuts.size())), SeenTo(t, t.deterministic),
                    SeenTo(t, t.batch_invariant),
                    !t.special_rows         ? "wrong"
                    : t.conventions.empty() ? "as defined"
                                            : Text("%zu conventions", t.conventions.size()),
                    t.accuracy.seconds > 0 ? Text("%.2g", t.accuracy.seconds / first) : "?"});
  }
  return Table(rows);
}

std::string AccuracyTable(const TargetComparison& comparison) {
  Cells rows = {{"target", "problems"}};
  for (const oracle::Output output : oracle::kOutputs) {
    if (output != oracle::Output::kLoss) rows.front().emplace_back(oracle::Name(output));
  }
  for (const ComparedTarget& t : comparison.targets) {
    if (!t.unavailable.empty()) continue;
    std::vector<std::string>& row = rows.emplace_back();
    row = {t.target, Text("%" PRId64 " of %" PRId64, t.accuracy.judged, t.accuracy.problems)};
    for (size_t i = 2; i < rows.front().size(); ++i) {
      const auto found =
          std::ranges::find(t.accuracy.outputs, rows.front()[i], &OutputAccuracy::output);
      row.push_back(found != t.accuracy.outputs.end()
                        ? Text("%.2g / %.2g / %.2g", found->typical, found->p99, found->largest)
                        : "-");
    }
  }
  return Table(rows);
}

std::string DetailsOf(const ComparedTarget& t, std::string_view out, std::string_view program) {
  std::string text = "\n" + t.target;
  if (!t.held_to.empty()) text += ", held to " + t.held_to;
  text += "\n";
  if (!t.unavailable.empty()) return text + "  not available: " + Printable(t.unavailable) + "\n";
  for (const std::string& shortcut : t.shortcuts) text += "  shortcut    " + shortcut + "\n";
  for (const ComparedFinding& f : t.findings) {
    text += Text("  %-11s ", f.suspect ? "suspect" : "wrong") + f.signature + ": " + Printable(f.what) +
            "\n";
    if (!f.shortcut.empty()) text += "              explained by: " + f.shortcut + "\n";
    if (f.file.empty()) continue;
    const std::string file = std::string(out) + "/" + f.file;
    text += "              " + ShellQuote(program) + " replay " + ShellQuote(file) + "\n";
  }
  for (const std::string& convention : t.conventions) text += "  convention  " + convention + "\n";
  for (const std::string& limit : t.limits) text += "  limit       " + limit + "\n";
  for (const SkippedCases& s : t.skipped) {
    text += Text("  skipped     %" PRId64 " cases: ", s.cases) + Printable(s.reason) + "\n";
  }
  const Accuracy& a = t.accuracy;
  if (a.changed > 0) {
    text += Text("  errors      on %" PRId64 " of %" PRId64
                 " problems that are changed to what it can do\n",
                 a.changed, a.judged);
  }
  for (const SkippedCases& s : a.skipped) {
    text += Text("  errors      not on %" PRId64 " problems: ", s.cases) + Printable(s.reason) + "\n";
  }
  if (!a.incomplete.empty()) text += "  errors      incomplete: " + Printable(a.incomplete) + "\n";
  return text;
}

}  // namespace

std::string ComparisonText(const TargetComparison& comparison, std::string_view out,
                           std::string_view program) {
  std::string text = "\n" + FindingsTable(comparison);
  text +=
      "time: of a target's runs on the same problems, the median over the first target's; kernels "
      "are\nmeasured by a benchmark, not here\n";
  text +=
      "\nerrors in units of what honest kernels of " + comparison.yardstick +
      " err on the same rows:\nthe typical problem's root mean square, the 99th percentile of rows, "
      "the largest\n\n";
  text += AccuracyTable(comparison);
  for (const ComparedTarget& target : comparison.targets) text += DetailsOf(target, out, program);
  return text + "\n";
}

}  // namespace plumbline::fuzz

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

std::string WordOf(Holding kept) {
  return kept == Holding::kYes ? "yes" : kept == Holding::kNo ? "no" : "not checked";
}

std::string SpecialRows(const ComparedTarget& t) {
  if (t.special_rows != Holding::kYes) return t.special_rows == Holding::kNo ? "wrong" : "not checked";
  const size_t conventions = t.conventions.size();
  return conventions == 0 ? "as defined"
                          : Text("%zu convention%s", conventions, conventions > 1 ? "s" : "");
}

std::string FindingsTable(const TargetComparison& comparison) {
  Cells rows = {{"target", "verdict", "judged", "wrong", "suspect", "shortcuts", "deterministic",
                 "batch-invariant", "special rows", "time"}};
  double first = 0;
  for (const ComparedTarget& t : comparison.targets) {
    if (first == 0) first = t.accuracy.seconds;
    const auto suspect = std::ranges::count_if(t.findings, &ComparedFinding::suspect);
    const auto wrong = static_cast<int64_t>(t.findings.size()) - suspect;
    if (t.cases == 0 && !t.error.empty()) {
      rows.push_back({t.target, t.verdict});
      continue;
    }
    rows.push_back({t.target, t.verdict, Text("%" PRId64 " of %" PRId64, t.judged, t.cases),
                    NumberOr(wrong), NumberOr(suspect),
                    NumberOr(static_cast<int64_t>(t.shortcuts.size())), WordOf(t.deterministic),
                    WordOf(t.batch_invariant), SpecialRows(t),
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
    if (t.accuracy.problems == 0) continue;
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
  if (!t.error.empty()) text += Text("  %-11s ", t.verdict.c_str()) + Printable(t.error) + "\n";
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
  for (const SkippedCases& f : a.failed) {
    text += Text("  errors      fails on %" PRId64 " problems: ", f.cases) + Printable(f.reason) + "\n";
  }
  for (const OutputAccuracy& o : a.outputs) {
    if (o.dropped == 0) continue;
    text += "  errors      " + o.output +
            Text(": no number in %" PRId64 " of %" PRId64 " rows or columns\n", o.dropped, o.units);
  }
  if (!a.incomplete.empty()) text += "  errors      incomplete: " + Printable(a.incomplete) + "\n";
  return text;
}

}  // namespace

std::string ComparisonText(const TargetComparison& comparison, std::string_view out,
                           std::string_view program) {
  std::string text = "\n" + FindingsTable(comparison);
  text +=
      "time: of a run of the same small problems, the median, over the first target's; kernels are "
      "measured\nby a benchmark, not here\n";
  text +=
      "\nerrors in units of what honest kernels of " + comparison.yardstick +
      " err on the same rows: the typical problem's root\nmean square / the 99th percentile of rows, "
      "each in its own unit / the largest error over the largest honest one\n\n";
  text += AccuracyTable(comparison);
  for (const ComparedTarget& target : comparison.targets) text += DetailsOf(target, out, program);
  return text + "\n";
}

}  // namespace plumbline::fuzz

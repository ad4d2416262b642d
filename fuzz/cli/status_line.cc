// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/status_line.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/base/units.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// Progress, added up over all targets.
struct Totals {
  int64_t cases = 0, judged = 0, skipped = 0;
  double rate = 0, vacuous = 0;               // cases a second of this run; a share of all elements
  std::pair<std::string, double> tightest{};  // an output and its largest error over bound
};

Totals TotalsOf(const Progress& progress) {
  Totals totals;
  ElementCounts elements{};
  for (const auto& [target, tally] : progress.targets) {
    totals.cases += tally.cases;
    totals.judged += tally.Judged();
    totals.skipped += tally.skipped;
    AddCounts(tally.elements, &elements);
    for (const auto& [output, value] : tally.tightness) {
      if (totals.tightest.first.empty() || value > totals.tightest.second)
        totals.tightest = {output, value};
    }
  }
  const int64_t seen = elements[0] + elements[1] + elements[2] + elements[3];
  if (seen > 0) totals.vacuous = static_cast<double>(elements[2]) / static_cast<double>(seen);
  totals.rate =
      static_cast<double>(totals.cases - progress.cases_before) / std::max(progress.in_this_run, 1e-3);
  return totals;
}

double InSeconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

double SinceNewCell(const Progress& progress) {
  return std::max(0.0, InSeconds(progress.elapsed - progress.newest));
}

// Returns the cases of a budget, of all targets; 0: it is time.
int64_t BudgetCases(const Progress& progress) {
  return progress.budget.cases * static_cast<int64_t>(progress.targets.size());
}

std::optional<milliseconds> TimeLeft(const Progress& progress, const Totals& totals) {
  if (progress.phase == Phase::kRecipe) return std::nullopt;
  if (progress.budget.cases == 0)
    return std::max(milliseconds{0}, progress.budget.time - progress.elapsed);
  if (!(totals.rate > 0)) return std::nullopt;
  const auto left =
      static_cast<double>(std::max<int64_t>(0, BudgetCases(progress) - totals.cases)) / totals.rate;
  return milliseconds{static_cast<int64_t>(std::min(left, 1e9) * 1000)};
}

// Returns "42s", "4m30s" or "2h05m".
std::string Spoken(milliseconds time) {
  const int64_t seconds = (time.count() + 999) / 1000, minutes = seconds / 60, hours = minutes / 60;
  if (minutes == 0) return Text("%" PRId64 "s", seconds);
  if (hours == 0) return Text("%" PRId64 "m%02" PRId64 "s", minutes, seconds % 60);
  return Text("%" PRId64 "h%02" PRId64 "m", hours, minutes % 60);
}

}  // namespace

std::optional<milliseconds> TimeLeft(const Progress& progress) {
  return TimeLeft(progress, TotalsOf(progress));
}

std::string StatusLine(const Progress& progress, size_t width) {
  const Totals totals = TotalsOf(progress);
  std::string line = std::string(Name(progress.phase)) + Text("  %.0fs", InSeconds(progress.elapsed));
  if (progress.phase != Phase::kRecipe) line += " of " + Format(progress.budget);
  if (const auto left = TimeLeft(progress, totals)) line += "  " + Spoken(*left) + " left";
  line += Text("  %" PRId64 " cases", totals.cases);
  if (totals.cases > 0) {
    // Rounded down: 100 % says that every case was judged.
    line += Text("  %.0f%% judged", std::floor(100 * static_cast<double>(totals.judged) /
                                               static_cast<double>(totals.cases)));
  }
  line += Text("  %" PRId64 " wrong  %" PRId64 " suspect  %.0f/s", progress.findings.wrong,
               progress.findings.suspect, totals.rate);
  for (const std::string& activity : progress.activity) line += "  " + activity;
  if (!totals.tightest.first.empty())
    line += "  error/allowed " + totals.tightest.first + Text(" %.3g", totals.tightest.second);
  line += Text("  %" PRId64 " cells, last new %.0fs ago", progress.cells, SinceNewCell(progress));
  line += Text("  %.1f%% vacuous  %" PRId64 " skipped", 100 * totals.vacuous, totals.skipped);
  if (width > 0 && line.size() > width) line.resize(width);
  return line;
}

Json ToJson(const Progress& progress) {
  const Totals totals = TotalsOf(progress);
  Json json;
  json["phase"] = Name(progress.phase);
  json["seconds"] = InSeconds(progress.elapsed);
  if (progress.phase != Phase::kRecipe) {
    json["budget"] = Format(progress.budget);
    if (progress.budget.cases > 0) {
      json["budget_cases"] = BudgetCases(progress);
    } else {
      json["budget_seconds"] = InSeconds(progress.budget.time);
    }
  }
  if (const auto left = TimeLeft(progress, totals)) json["left_seconds"] = InSeconds(*left);
  json["cases"] = totals.cases;
  json["judged"] = totals.judged;
  json["skipped"] = totals.skipped;
  json["a_second"] = totals.rate;
  json["wrong"] = progress.findings.wrong;
  json["suspect"] = progress.findings.suspect;
  json["cells"] = progress.cells;
  json["since_new_cell"] = SinceNewCell(progress);
  json["activity"] = Json::Array{};
  for (const std::string& activity : progress.activity) json["activity"].Append(activity);
  if (!totals.tightest.first.empty()) json["tightest"][totals.tightest.first] = totals.tightest.second;
  return json;
}

}  // namespace plumbline::fuzz

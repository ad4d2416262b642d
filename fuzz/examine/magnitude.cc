// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/magnitude.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>
#include <string>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/baseline/honest_errors.h"

namespace plumbline::fuzz {
namespace {

// Where fewer units carry the errors, realised errors of two or three are compared. Nobody looks at a
// campaign's verdicts one by one: check judges these.
constexpr double kLeastEffective = 4;

bool IsOfValues(const Finding& finding) {
  return finding.kind == FindingKind::kBound || finding.kind == FindingKind::kNonFinite ||
         finding.kind == FindingKind::kSign || finding.kind == FindingKind::kNotZero;
}

}  // namespace

void AddMagnitudes(const HonestErrors& errors, std::vector<Finding>* findings) {
  const ShortcutExplanation& explanation = errors.explanation;
  for (Finding& f : *findings) {
    if (f.kind != FindingKind::kBound || !f.shortcut.empty()) continue;
    const auto named = [&](oracle::Output output) { return oracle::Name(output) == f.output; };
    if (std::ranges::any_of(explanation.explains, named)) f.shortcut = explanation.Words();
  }
  std::vector<Finding> added;
  for (const OutputErrors& o : errors.outputs) {
    const std::string name(oracle::Name(o.output));
    const auto of_output = [&](const Finding& f) { return f.output == name && IsOfValues(f); };
    const auto told = [&](const Finding& f) { return f.output == name; };
    if (!o.units.Suspect() || o.units.effective < kLeastEffective ||
        std::ranges::any_of(*findings, of_output) || std::ranges::any_of(added, told)) {
      continue;
    }
    Finding f;
    f.kind = FindingKind::kMagnitude;
    f.suspect = true;
    f.output = name;
    f.tightness = o.units.Judged() / HonestUnits::kSuspect;
    f.what = name + (o.part.empty() ? "" : " of " + std::string(o.part)) +
             Text(
                 " errs %.3g times what honest kernels of its contract err (root mean square %.2g, "
                 "honest %.2g, %" PRId64 " units, %" PRId64 " baselines)",
                 o.units.Judged(), o.units.found, o.units.honest, o.units.units, errors.baselines);
    if (std::ranges::find(explanation.explains, o.output) != explanation.explains.end()) {
      f.shortcut = explanation.Words();
    } else if (explanation.rows > 0) {
      f.what +=
          Text("; no shortcut that is simulated explains it (on %" PRId64 " rows)", explanation.rows);
    }
    added.push_back(std::move(f));
  }
  std::move(added.begin(), added.end(), std::back_inserter(*findings));
}

std::vector<HonestRatio> RatiosOf(const HonestErrors& errors, bool units) {
  std::vector<HonestRatio> ratios;
  for (const OutputErrors& o : errors.outputs) {
    if (o.units.units == 0 && o.dropped == 0) continue;
    HonestRatio& to = ratios.emplace_back();
    to.output = oracle::Name(o.output);
    to.ratio = o.units.Ratio();
    to.rms = o.units.rms;
    to.largest = o.units.largest;
    to.dropped = o.dropped;
    if (units) to.units = o.units.ratios;
  }
  return ratios;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/check/honest_report.h"

#include <algorithm>
#include <cinttypes>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

std::string NameOf(const OutputErrors& o) {
  return std::string(oracle::Name(o.output)) + (o.part.empty() ? "" : " (" + std::string(o.part) + ")");
}

std::string Word(const HonestUnits& units) {
  if (units.TooFew()) return "too few";
  return units.Suspect() ? "suspect" : units.Noted() ? "clean, noted" : "clean";
}

}  // namespace

std::string NamesOf(const std::vector<Output>& outputs) {
  std::string text;
  for (const Output o : outputs) text += (text.empty() ? "" : ", ") + std::string(oracle::Name(o));
  return text;
}

std::string ShortcutsOf(const Explanation& explanation) {
  std::string text;
  for (size_t i = 0; i < explanation.shortcuts.size(); ++i) {
    text += (i > 0 ? "; and " : "") + explanation.shortcuts[i];
    if (!explanation.or_else[i].empty()) text += ", or " + explanation.or_else[i];
  }
  return text;
}

std::string SuspectHeadline(const HonestErrors& honest) {
  std::string text;
  for (const OutputErrors& o : honest.outputs) {
    if (!o.units.Suspect()) continue;
    text += (text.empty() ? "SUSPECT: " : ", ") + NameOf(o) + Text(" by %.3g", o.units.Judged());
  }
  text += " times what an honest kernel of this contract errs on these rows; no bound is broken";
  const Explanation& explanation = honest.explanation;
  if (!explanation.shortcuts.empty() && !explanation.explains.empty()) {
    text += "; " + ShortcutsOf(explanation) + " explains " + NamesOf(explanation.explains);
  }
  return text + "\n";
}

std::string HonestErrorsTable(const HonestErrors& honest) {
  if (honest.outputs.empty()) return {};
  std::string text = Text("in units of what %" PRId64 " honest kernels of this contract err on %" PRId64
                          " of these rows",
                          honest.baselines, honest.rows);
  if (honest.hidden_columns > 0) {
    text += Text(", %" PRId64 " columns of grad_hidden", honest.hidden_columns);
  }
  if (honest.weight_rows > 0) {
    text += Text(", %" PRId64 " rows of grad_weight", honest.weight_rows);
  }
  std::vector<std::vector<std::string>> rows = {{"output", "units", "honest error", "error found",
                                                 "ratio", "median", "largest", "verdict", "errs most"}};
  for (const OutputErrors& o : honest.outputs) {
    const HonestUnits& u = o.units;
    rows.push_back({NameOf(o), Text("%" PRId64, u.units), Text("%.2g", u.honest), Text("%.2g", u.found),
                    Text("%.3g", u.rms), Text("%.3g", u.median), Text("%.3g", u.largest), Word(u),
                    o.baseline});
  }
  return text + ":\n" + Table(rows) + "\n";
}

std::string ExplanationText(const HonestErrors& honest) {
  const Explanation& explanation = honest.explanation;
  if (explanation.rows == 0) return {};
  if (explanation.shortcuts.empty()) {
    return Text("no shortcut that is simulated explains it (on %" PRId64 " rows)\n", explanation.rows);
  }
  std::string text = "shortcut: " + ShortcutsOf(explanation) +
                     Text(": what is left on %" PRId64 " %srows, in the same units:", explanation.rows,
                          explanation.all_rows ? "" : "of these ");
  for (const OutputErrors& o : explanation.left) {
    text += (text.back() == ':' ? " " : ", ") + NameOf(o) + Text(" %.2g", o.units.Judged());
  }
  text += "\n";
  if (!explanation.unexplained.empty()) {
    text += "unexplained: " + NamesOf(explanation.unexplained) +
            (explanation.all_rows ? "" : ", by these rows at least") + "\n";
  }
  return text;
}

std::string NotSeen(const HonestErrors& honest) {
  std::string text;
  for (const OutputErrors& o : honest.outputs) {
    if (o.units.TooFew()) continue;
    text += (text.empty() ? "" : ", ") + NameOf(o) +
            Text(" of %.2g", HonestUnits::kSuspect * o.units.honest);
  }
  return text.empty() ? text : "could not have seen: errors below a root mean square in " + text + "\n";
}

Json HonestErrorsJson(const HonestErrors& honest) {
  Json json;
  json["rows"] = honest.rows;
  json["baselines"] = honest.baselines;
  json["hidden_columns"] = honest.hidden_columns;
  json["weight_rows"] = honest.weight_rows;
  json["outputs"] = Json(Json::Array{});
  for (const OutputErrors& o : honest.outputs) {
    Json each;
    each["output"] = oracle::Name(o.output);
    if (!o.part.empty()) each["part"] = o.part;
    each["units"] = o.units.units;
    each["honest"] = o.units.honest;
    each["found"] = o.units.found;
    each["rms"] = o.units.rms;
    each["median"] = o.units.median;
    each["largest"] = o.units.largest;
    each["verdict"] = o.units.TooFew() ? "too few" : o.units.Suspect() ? "suspect" : "clean";
    each["baseline"] = o.baseline;
    json["outputs"].Append(std::move(each));
  }
  const Explanation& explanation = honest.explanation;
  if (explanation.rows > 0) {
    Json& under = json["explanation"];
    const auto names = [](const std::vector<Output>& outputs) {
      Json::Array list;
      for (const Output o : outputs) list.emplace_back(oracle::Name(o));
      return list;
    };
    under["rows"] = explanation.rows;
    under["shortcuts"] = Json::Array(explanation.shortcuts.begin(), explanation.shortcuts.end());
    under["or_else"] = Json::Array(explanation.or_else.begin(), explanation.or_else.end());
    under["explains"] = names(explanation.explains);
    under["unexplained"] = names(explanation.unexplained);
  }
  json["left_out"] = Json::Array(honest.left_out.begin(), honest.left_out.end());
  return json;
}

std::vector<Output> ExplainedByShortcuts(const HonestErrors& honest,
                                         const std::vector<Output>& failing) {
  const Explanation& explanation = honest.explanation;
  if (explanation.shortcuts.empty() || !explanation.unexplained.empty()) return {};
  std::vector<Output> explained = explanation.explains;
  for (const Output o : failing) {
    if (std::ranges::find(explanation.left, o, &OutputErrors::output) == explanation.left.end()) {
      return {};
    }
    if (std::ranges::find(explained, o) == explained.end()) explained.push_back(o);
  }
  return explained;
}

}  // namespace plumbline::fuzz

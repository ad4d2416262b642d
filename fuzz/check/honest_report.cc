// SPDX-License-Identifier: Apache-2.0
#include "fuzz/check/honest_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

std::string NameOf(const OutputErrors& o) {
  return std::string(oracle::Name(o.output)) + (o.part.empty() ? "" : " (" + std::string(o.part) + ")");
}

std::string Word(const HonestUnits& units) {
  if (units.Suspect()) return "suspect";
  if (units.TooFew()) return "too few";
  if (units.Ratio() > HonestUnits::kSuspect) return "clean, of one";
  return units.Noted() ? "clean, noted" : "clean";
}

}  // namespace

std::string NamesOf(const std::vector<Output>& outputs) {
  std::string text;
  for (const Output o : outputs) text += (text.empty() ? "" : ", ") + std::string(oracle::Name(o));
  return text;
}

std::string SuspectHeadline(const HonestErrors& honest, std::string_view where) {
  std::string text;
  for (const OutputErrors& o : honest.outputs) {
    if (!o.units.Suspect()) continue;
    text += (text.empty() ? "SUSPECT: " : ", ") + NameOf(o) + Text(" by %.3g", o.units.Judged());
  }
  text += " times what an honest kernel of this contract errs " + std::string(where) +
          "; no bound is broken";
  const ShortcutExplanation& explanation = honest.explanation;
  if (!explanation.shortcuts.empty() && !explanation.explains.empty()) {
    text += "; " + explanation.Words() + " explains " + NamesOf(explanation.explains);
  }
  return text + "\n";
}

std::string ErrorsTable(const std::vector<OutputErrors>& outputs) {
  std::vector<std::vector<std::string>> rows = {{"output", "units", "honest error", "error found",
                                                 "ratio", "median", "largest", "verdict", "errs most"}};
  for (const OutputErrors& o : outputs) {
    const HonestUnits& u = o.units;
    rows.push_back({NameOf(o), Text("%" PRId64, u.units), Text("%.2g", u.honest), Text("%.2g", u.found),
                    Text("%.3g", u.rms), Text("%.3g", u.median), Text("%.3g", u.largest), Word(u),
                    o.baseline});
  }
  return Table(rows) + "\n";
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
  return text + ":\n" + ErrorsTable(honest.outputs);
}

std::string WorstRowsText(const HonestErrors& honest, const oracle::Inputs& inputs,
                          const std::function<int64_t(int64_t)>& name) {
  constexpr size_t kShown = 3;
  std::string text;
  for (const OutputErrors& o : honest.outputs) {
    if (!o.units.Suspect()) continue;
    const bool weight = o.output == Output::kGradWeight;
    text += "worst of " + NameOf(o) + ":";
    for (size_t i = 0; i < std::min(kShown, o.worst.size()); ++i) {
      const WorstUnit& unit = o.worst[i];
      text += Text("%s row %" PRId64, i > 0 ? ";" : "", weight ? unit.row : name(unit.row));
      if (!weight) {
        const auto at = static_cast<size_t>(unit.row);
        text += Text(" (label %" PRId64 ", T %g)", inputs.label[at], inputs.temperature[at]);
      }
      text += Text(" errs %.2g, honest %.2g", unit.error, unit.honest);
      if (!std::isnan(unit.got)) text += Text(": %.9g for %.9g", unit.got, unit.exact);
    }
    text += "\n";
  }
  return text;
}

std::string ExplanationText(const HonestErrors& honest) {
  const ShortcutExplanation& explanation = honest.explanation;
  if (explanation.rows == 0) return {};
  if (explanation.shortcuts.empty()) {
    return Text("no shortcut that is simulated explains it (on %" PRId64 " rows)\n", explanation.rows);
  }
  std::string text = "shortcut: " + explanation.Words() +
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

std::string OverAllRowsText(const HonestErrors& weight) {
  std::string text;
  if (!weight.outputs.empty()) {
    text = Text("over all %" PRId64 " rows, from the dump's own lse, in units of what %" PRId64
                " honest kernels err in %" PRId64 " rows of grad_weight:\n",
                weight.rows, weight.baselines, weight.weight_rows) +
           ErrorsTable(weight.outputs) + WorstRowsText(weight, {}, {});
  }
  for (const std::string& line : weight.left_out) {
    text += "not compared with honest kernels: " + line + "\n";
  }
  text += ExplanationText(weight) + NotSeen(weight);
  if (!weight.outputs.empty()) {
    text +=
        "could not have seen: a row that is not judged, whose lse is wrong and whose part of "
        "grad_weight "
        "follows from it\n";
  }
  return text;
}

std::string NotSeen(const HonestErrors& honest) {
  std::string text;
  for (const OutputErrors& o : honest.outputs) {
    text += (text.empty() ? "" : ", ") + NameOf(o) +
            Text(" of %.2g", o.units.Divisor() * HonestUnits::kSuspect * o.units.honest);
  }
  return text.empty() ? text : "could not have seen: errors below a root mean square in " + text + "\n";
}

Json HonestErrorsJson(const HonestErrors& honest, const std::function<int64_t(int64_t)>& name) {
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
    each["effective"] = o.units.effective;
    each["verdict"] = o.units.Suspect() ? "suspect" : o.units.TooFew() ? "too few" : "clean";
    each["baseline"] = o.baseline;
    if (o.units.Suspect()) {
      for (const WorstUnit& unit : o.worst) {
        Json worst;
        worst["row"] = o.output == Output::kGradWeight ? unit.row : name(unit.row);
        worst["error"] = unit.error;
        worst["honest"] = unit.honest;
        if (!std::isnan(unit.got)) worst["got"] = unit.got;
        if (!std::isnan(unit.got)) worst["exact"] = unit.exact;
        each["worst"].Append(std::move(worst));
      }
    }
    json["outputs"].Append(std::move(each));
  }
  const ShortcutExplanation& explanation = honest.explanation;
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
  const ShortcutExplanation& explanation = honest.explanation;
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

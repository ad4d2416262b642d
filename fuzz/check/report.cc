// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <map>
#include <string_view>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"
#include "fuzz/check/consistency_report.h"
#include "fuzz/check/honest_report.h"
#include "fuzz/examine/conventions.h"
#include "kernel/dtype.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;
using oracle::OutputVerdict;

std::string Required(const oracle::Element& e) {
  switch (e.expect) {
    case oracle::Expect::kPlusZero:
      return "exactly +0";
    case oracle::Expect::kNaN:
      return "NaN";
    case oracle::Expect::kPlusInf:
      return "+inf";
    case oracle::Expect::kMinusInf:
      return "-inf";
    case oracle::Expect::kEmptyLse:
      return "NaN, or -inf by convention";
    case oracle::Expect::kEmptyMean:
      return "0, or NaN by convention";
    case oracle::Expect::kIgnored:
      return "0, or anything by convention";
    case oracle::Expect::kUnspecified:
      return "anything";
    default:
      return Allowed(e.value, e.bound);
  }
}

std::string WorstPlace(const JudgedOutput& o) {
  return o.verdict.row < 0 ? "-" : Place(oracle::Name(o.verdict.output), o.dump_row, o.verdict.column);
}

// A gradient of 16 bits, whose rounding alone makes up to 1 of error/bound.
bool RoundedTo16(const JudgedOutput& o) {
  const Output output = o.verdict.output;
  return (output == Output::kGradHidden || output == Output::kGradWeight) && o.verdict.row >= 0 &&
         o.dtype != kernel::DType::kF32;
}

std::vector<std::string> Row(const JudgedOutput& o) {
  const OutputVerdict& v = o.verdict;
  const bool none = v.row < 0;
  return {std::string(oracle::Name(v.output)),
          Text("%" PRId64, v.pass + v.fail),
          Text("%" PRId64, o.wrong()),
          Text("%" PRId64, o.suspect),
          Text("%" PRId64, v.vacuous),
          Text("%" PRId64, v.unspecified),
          none ? "-" : Text("%.3g", v.tightness) + (RoundedTo16(o) ? " *" : ""),
          WorstPlace(o),
          none ? "-" : Number(v.got),
          none ? "-" : Required(v.expected)};
}

// A row that the definition answers with 0 because its label is ignore_index.
bool IsIgnoredRow(const DumpSample& sample, const JudgedOutput& o) {
  const kernel::Problem& p = sample.problem();
  const bool by_row = o.verdict.output != Output::kLoss && o.verdict.output != Output::kGradWeight;
  return by_row && o.verdict.row >= 0 && oracle::ReadInt(p.labels, o.verdict.row) == p.ignore_index;
}

std::string Wrong(const DumpSample& sample, const JudgedOutput& o) {
  const OutputVerdict& v = o.verdict;
  std::string text = (o.wrong() > 0 ? "wrong: " : "suspect: ") + WorstPlace(o) + " = " + Number(v.got) +
                     " where " + Required(v.expected) + " is required";
  if (v.failure == oracle::Failure::kBound) {
    text += Text(" (off by %.3g times the bound)", v.tightness);
  }
  // A wrong sign is named also where none was promised and the bound is what fails.
  if (v.output == Output::kLogprob && v.got > 0) text += "; a log-probability is never positive";
  if (v.output == Output::kEntropy && v.got < 0) text += "; an entropy is never negative";
  if (IsIgnoredRow(sample, o)) {
    text += Text("\n       row %" PRId64 " is ignored (label %" PRId64 ")", o.dump_row,
                 sample.problem().ignore_index);
    if (v.output != Output::kGradHidden) {
      text +=
          ", and this contract promises 0 there; by the bounds of a black box (no --target, no "
          "--contract) any value is a convention";
    }
  }
  text += "\n";
  if (!o.arbiter.empty()) text += "       the arbiter (1280 bits) agrees: " + o.arbiter + "\n";
  for (const SuspectReading& reading : o.readings) {
    text +=
        "       no defect if " + reading.what + ": declare " + reading.opt_out + " in its contract\n";
  }
  return text;
}

// Returns what the arbiter was not asked about, one line for each reason.
std::string NotConfirmed(const std::vector<JudgedOutput>& outputs) {
  std::map<std::string, std::string> others;  // outputs by reason
  std::string dear;
  double seconds = 0;
  const auto add = [](std::string* list, const JudgedOutput& o) {
    *list += (list->empty() ? "" : ", ") + std::string(oracle::Name(o.verdict.output));
  };
  for (const JudgedOutput& o : outputs) {
    if (o.arbiter_silent.empty()) continue;
    add(o.arbiter_seconds > 0 ? &dear : &others[o.arbiter_silent], o);
    seconds += o.arbiter_seconds;
  }
  constexpr std::string_view kHead = "not confirmed by the arbiter, at 1280 bits: ";
  std::string text;
  for (const auto& [reason, list] : others) text += std::string(kHead) + list + ": " + reason + "\n";
  if (dear.empty()) return text;
  const double minutes = std::ceil(seconds / 60);
  return text + std::string(kHead) + dear +
         (seconds < 60 ? Text(" (about %.0f s; --arbiter %.0fs asks it)\n", std::ceil(seconds),
                              std::ceil(seconds))
                       : Text(" (about %.0f min; --arbiter %.0fm asks it)\n", minutes, minutes));
}

// The first line without what the second tier alone shows beside a broken bound.
std::string BoundsHeadline(const DumpSample& sample, const DumpReport& report) {
  const DumpVerdict& verdict = report.verdict;
  std::vector<Output> failing;
  for (const JudgedOutput& o : verdict.outputs) {
    if (o.verdict.fail > 0) failing.push_back(o.verdict.output);
  }
  if (const std::vector<Output> explained = ExplainedByShortcuts(verdict.honest, failing);
      !explained.empty()) {
    return (verdict.wrong > 0 ? "WRONG: " : "SHORTCUT: ") + verdict.honest.explanation.Words() +
           " (explains " + NamesOf(explained) + ")" + (failing.empty() ? "; no bound is broken" : "") +
           "\n";
  }
  if (const HonestErrors& weight = verdict.over_all_rows;
      failing.empty() && !verdict.honest.AnySuspect() && weight.AnySuspect()) {
    return ExplainedByShortcuts(weight, {}).empty()
               ? SuspectHeadline(weight, "over all rows")
               : "SHORTCUT: " + weight.explanation.Words() +
                     " (explains grad_weight); no bound is broken\n";
  }
  if (failing.empty() && verdict.honest.AnySuspect()) {
    return SuspectHeadline(verdict.honest, "on these rows");
  }
  if (failing.empty() && !BrokenChecks(report.consistency).empty()) {
    return ConsistencyHeadline(report.consistency);
  }
  if (failing.empty()) {
    return Text("nothing wrong in %" PRId64 " elements of ", verdict.judged) + [&] {
      std::vector<Output> judged;
      for (const JudgedOutput& o : verdict.outputs) judged.push_back(o.verdict.output);
      return NamesOf(judged);
    }() + "\n";
  }
  const std::string rows =
      verdict.wrong_rows.empty()
          ? ""
          : Text("%zu of %zu rows", verdict.wrong_rows.size(), sample.rows().size());
  const std::string head = verdict.wrong > 0 ? "WRONG: " : "SUSPECT: ";
  if (report.diagnosis.empty()) {
    return head + NamesOf(failing) + (rows.empty() ? "" : " (" + rows + ")") +
           (verdict.wrong > 0 ? "; none of the mistakes that are tried explains it\n" : "\n");
  }
  std::string text;
  for (const Diagnosis& d : report.diagnosis) {
    text += (text.empty() ? head : "   and: ") + d.what + " (" + (rows.empty() ? "" : rows + "; ") +
            "explains " + NamesOf(d.explains) + ")\n";
  }
  return text;
}

// The first line: the verdict, and its cause in words where one is known.
std::string Headline(const DumpSample& sample, const DumpReport& report) {
  const std::vector<const ConsistencyCheck*> checks = BrokenChecks(report.consistency);
  const bool proven = !checks.empty() && checks.front()->verdict == ConsistencyVerdict::kWrong;
  // A proof comes before what is improbable.
  std::string text = proven && report.verdict.wrong == 0 ? ConsistencyHeadline(report.consistency)
                                                         : BoundsHeadline(sample, report);
  std::vector<Output> also;
  const bool broken = report.verdict.wrong + report.verdict.suspect > 0;
  for (const JudgedOutput& o : report.verdict.outputs) {
    const Output output = o.verdict.output;
    const bool explained = std::ranges::find(report.verdict.honest.explanation.explains, output) !=
                           report.verdict.honest.explanation.explains.end();
    if (broken && o.verdict.fail == 0 && report.verdict.honest.Suspect(output) && !explained) {
      also.push_back(output);
    }
  }
  // Where nothing else is found the headline says it already.
  if (report.verdict.over_all_rows.AnySuspect() && (broken || report.verdict.honest.AnySuspect())) {
    also.push_back(Output::kGradWeight);
  }
  for (size_t at = 0; at < report.findings.size(); ++at) {
    // No verdict that clears the elements stands before a finding.
    const bool first = at == 0 && text.starts_with("nothing wrong");
    const std::string line = (first ? "WRONG: " : "   and: ") + report.findings[at].headline + "\n";
    text = first ? line : text + line;
  }
  if (!also.empty()) {
    text.insert(text.size() - 1, "; and " + NamesOf(also) + ": more than any honest kernel errs");
  }
  return text;
}

// Returns "3, 17, 40 (3 of the 64 looked at)", cut after a few rows.
std::string RowList(const std::vector<int64_t>& rows, size_t of) {
  constexpr size_t kMost = 16;
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(rows[i]);
  }
  if (rows.size() > kMost) text += ", ...";
  return text + Text(" (%zu of the %zu looked at)", rows.size(), of);
}

}  // namespace

std::vector<std::string> NotLookedAt(const DumpSample& sample, bool ran) {
  const Dump& dump = sample.dump();
  std::vector<std::string> left;
  const auto looked = static_cast<int64_t>(sample.rows().size());
  const int64_t rest = dump.problem.rows() - looked;
  if (rest > 0) left.push_back(Text("%" PRId64 " rows: --rows is %" PRId64, rest, looked));
  const auto every_row = [&](Output o, bool there) {
    if (there && !sample.all()) {
      left.push_back(std::string(oracle::Name(o)) +
                     ": its bound depends on every row; --rows all judges it");
    }
  };
  every_row(Output::kLoss, !ran && dump.output(Output::kLoss));
  every_row(Output::kGradWeight,
            ran ? dump.wanted.grad_weight : dump.output(Output::kGradWeight).has_value());
  for (Output o : oracle::kOutputs) {
    if (ran && dump.output(o)) {
      left.push_back(std::string(oracle::Name(o)) + " in the dump: the target's own is judged");
    }
  }
  for (const std::string& name : dump.unknown) {
    left.push_back("tensor \"" + name + "\": means nothing here");
  }
  return left;
}

std::string DumpReportText(const DumpSample& sample, const DumpReport& report) {
  const Dump& dump = sample.dump();
  const kernel::Problem& p = dump.problem;
  std::string text =
      Headline(sample, report) + dump.path.string() +
      Text(": N=%" PRId64 " V=%" PRId64 " H=%" PRId64 " ", p.rows(), p.vocab(), p.hidden_size()) +
      std::string(kernel::Name(p.hidden.dtype)) + ", reduction " +
      std::string(NameOf(p.reduction, kReductionNames)) +
      Text(", ignore_index %" PRId64 "\n", p.ignore_index);
  text += Text("%zu of %" PRId64 " rows looked at; judged: ", sample.rows().size(), p.rows()) +
          report.judged + ", by the bounds of " + report.contract + "\n";
  if (report.assumed) {
    text +=
        "no contract is given: an error is allowed if any kernel that accumulates in fp32 may make it "
        "(--contract or --target narrows that)\n";
  }
  for (const std::string& line : report.notes) text += line + "\n";
  text += "\n";
  std::vector<std::vector<std::string>> rows = {{"output", "judged", "wrong", "suspect", "vacuous",
                                                 "unspecified", "error/bound", "at worst", "got",
                                                 "required"}};
  for (const JudgedOutput& o : report.verdict.outputs) rows.push_back(Row(o));
  text += Table(rows);
  if (std::ranges::any_of(report.verdict.outputs, RoundedTo16)) {
    text += "* of 16 bits: rounding the output alone makes up to 1\n";
  }
  text += "\n" + HonestErrorsTable(report.verdict.honest) + ConsistencyText(report.consistency);
  for (const JudgedOutput& o : report.verdict.outputs) {
    if (o.verdict.fail > 0) text += Wrong(sample, o);
  }
  for (const DumpFinding& finding : report.findings) text += finding.line + "\n";
  for (const std::string& line : report.shards) text += "shards: " + line + "\n";
  text += NotConfirmed(report.verdict.outputs);
  if (!report.verdict.wrong_rows.empty()) {
    text += "rows whose logprob, entropy or lse is wrong: " +
            RowList(report.verdict.wrong_rows, sample.rows().size()) + "\n";
  }
  for (const std::string& line : ConventionLines(report.verdict.conventions)) {
    text += "convention: " + line + "\n";
  }
  for (const Diagnosis& d : report.diagnosis) text += "diagnosis: " + d.Sentence() + "\n";
  for (const std::string& line : report.not_looked_at) text += "not looked at: " + line + "\n";
  for (const std::string& line : report.verdict.honest.left_out) {
    text += "not compared with honest kernels: " + line + "\n";
  }
  text += WorstRowsText(report.verdict.honest, oracle::LoadInputs(sample.problem()),
                        [&](int64_t row) { return sample.rows()[static_cast<size_t>(row)]; });
  text += ExplanationText(report.verdict.honest) + NotSeen(report.verdict.honest);
  text += OverAllRowsText(report.verdict.over_all_rows);
  for (const std::string& line : report.cannot_show) text += "cannot show: " + line + "\n";
  for (const std::string& section : report.sections) text += section;
  return text;
}

Json DumpReportJson(const DumpSample& sample, const DumpReport& report) {
  const kernel::Problem& p = sample.dump().problem;
  Json json;
  json["file"] = sample.dump().path.string();
  json["n"] = p.rows();
  json["v"] = p.vocab();
  json["weight_rows"] = sample.dump().weight_rows;
  json["h"] = p.hidden_size();
  json["dtype"] = kernel::Name(p.hidden.dtype);
  json["reduction"] = NameOf(p.reduction, kReductionNames);
  json["rows"] = static_cast<int64_t>(sample.rows().size());
  json["judged"] = report.judged;
  json["contract"] = report.contract;
  json["outputs"] = Json(Json::Array{});
  for (const JudgedOutput& o : report.verdict.outputs) {
    const OutputVerdict& v = o.verdict;
    Json output;
    output["output"] = oracle::Name(v.output);
    output["pass"] = v.pass;
    output["fail"] = o.wrong();
    output["suspect"] = o.suspect;
    for (const SuspectReading& reading : o.readings) output["readings"].Append(ToJson(reading));
    output["vacuous"] = v.vacuous;
    output["unspecified"] = v.unspecified;
    output["tightness"] = v.tightness;
    if (v.row >= 0) {
      Json& worst = output["worst"];
      worst["row"] = o.dump_row;
      worst["column"] = v.column;
      worst["got"] = v.got;
      worst["expected"] = v.expected.value;
      worst["bound"] = v.expected.bound;
      worst["required"] = Required(v.expected);
      if (v.fail > 0) worst["failure"] = oracle::Name(v.failure);
      if (!o.arbiter.empty()) worst["arbiter"] = o.arbiter;
      if (!o.arbiter_silent.empty()) worst["arbiter_silent"] = o.arbiter_silent;
    }
    json["outputs"].Append(std::move(output));
  }
  const auto list = [](const auto& items) { return Json::Array(items.begin(), items.end()); };
  json["wrong_rows"] = list(report.verdict.wrong_rows);
  json["not_looked_at"] = list(report.not_looked_at);
  const auto name = [&](int64_t row) { return sample.rows()[static_cast<size_t>(row)]; };
  json["honest_errors"] = HonestErrorsJson(report.verdict.honest, name);
  if (report.verdict.over_all_rows.rows > 0) {
    json["grad_weight_over_all_rows"] = HonestErrorsJson(report.verdict.over_all_rows, name);
  }
  json["consistency"] = ConsistencyJson(report.consistency);
  json["conventions"] = ConventionsJson(report.verdict.conventions);
  json["diagnosis"] = Json(Json::Array{});
  for (const Diagnosis& d : report.diagnosis) json["diagnosis"].Append(d.Sentence());
  json["cannot_show"] = list(report.cannot_show);
  json["findings"] = Json(Json::Array{});
  for (const DumpFinding& finding : report.findings) json["findings"].Append(finding.line);
  json["notes"] = list(report.notes);
  if (const Json::Object* more = report.more_json.as_object()) {
    for (const auto& [key, value] : *more) json[key] = value;
  }
  return json;
}

}  // namespace plumbline::fuzz

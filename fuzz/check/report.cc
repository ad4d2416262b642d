// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/report.h"

#include <algorithm>
#include <cinttypes>
#include <string_view>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"
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
      return Text("%.9g +- %.3g", e.value, e.bound);
  }
}

std::string WorstPlace(const JudgedOutput& o) {
  return o.verdict.row < 0 ? "-" : Place(oracle::Name(o.verdict.output), o.dump_row, o.verdict.column);
}

std::vector<std::string> Row(const JudgedOutput& o) {
  const OutputVerdict& v = o.verdict;
  const bool none = v.row < 0;
  return {std::string(oracle::Name(v.output)),
          Text("%" PRId64, v.pass + v.fail),
          Text("%" PRId64, v.fail),
          Text("%" PRId64, v.vacuous),
          Text("%" PRId64, v.unspecified),
          none ? "-" : Text("%.3g", v.tightness),
          WorstPlace(o),
          none ? "-" : Text("%.9g", v.got),
          none ? "-" : Required(v.expected)};
}

std::string Wrong(const JudgedOutput& o) {
  const OutputVerdict& v = o.verdict;
  std::string text =
      "wrong: " + WorstPlace(o) + Text(" = %.9g where ", v.got) + Required(v.expected) + " is required";
  if (v.failure == oracle::Failure::kBound) {
    text += Text(" (off by %.3g times the bound)", v.tightness);
  }
  // A wrong sign is named also where none was promised and the bound is what fails.
  if (v.output == Output::kLogprob && v.got > 0) text += "; a log-probability is never positive";
  if (v.output == Output::kEntropy && v.got < 0) text += "; an entropy is never negative";
  text += "\n       ";
  text += o.arbiter.empty() ? "the arbiter was not asked: " + o.arbiter_silent
                            : "the arbiter agrees: " + o.arbiter;
  return text + "\n";
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
      left.push_back(std::string(oracle::Name(o)) + ": depends on every row; --rows all judges it");
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
      dump.path.string() +
      Text(": N=%" PRId64 " V=%" PRId64 " H=%" PRId64 " ", p.rows(), p.vocab(), p.hidden_size()) +
      std::string(kernel::Name(p.hidden.dtype)) + ", reduction " +
      std::string(NameOf(p.reduction, kReductionNames)) +
      Text(", ignore_index %" PRId64 "\n", p.ignore_index);
  text += Text("%zu of %" PRId64 " rows looked at; judged: ", sample.rows().size(), p.rows()) +
          report.judged + ", by the bounds of " + report.contract + "\n\n";
  std::vector<std::vector<std::string>> rows = {{"output", "judged", "wrong", "vacuous", "unspecified",
                                                 "error/bound", "at worst", "got", "required"}};
  for (const JudgedOutput& o : report.verdict.outputs) rows.push_back(Row(o));
  text += Table(rows) + "\n";
  for (const JudgedOutput& o : report.verdict.outputs) {
    if (o.verdict.fail > 0) text += Wrong(o);
  }
  if (!report.verdict.wrong_rows.empty()) {
    text += "rows whose logprob, entropy or lse is wrong: " +
            RowList(report.verdict.wrong_rows, sample.rows().size()) + "\n";
  }
  for (const std::string& line : ConventionLines(report.verdict.conventions)) {
    text += "convention: " + line + "\n";
  }
  for (const std::string& line : report.diagnosis) text += "diagnosis: " + line + "\n";
  for (const std::string& line : report.not_looked_at) text += "not looked at: " + line + "\n";
  return text;
}

Json DumpReportJson(const DumpSample& sample, const DumpReport& report) {
  const kernel::Problem& p = sample.dump().problem;
  Json json;
  json["file"] = sample.dump().path.string();
  json["n"] = p.rows();
  json["v"] = p.vocab();
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
    output["fail"] = v.fail;
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
  json["conventions"] = ConventionsJson(report.verdict.conventions);
  json["diagnosis"] = list(report.diagnosis);
  return json;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/rollout.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/baseline/simulate.h"
#include "fuzz/check/dump_shapes.h"
#include "fuzz/check/exact_logits.h"
#include "fuzz/problem/values.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;

// Logits of all rows together: 128 MiB in fp64, and as much again sorted.
constexpr int64_t kMostRolloutLogits = int64_t{1} << 24;
constexpr int64_t kLeastRolloutRows = 2 * RolloutHypothesis::kLeastTested;

// The rows of the sample with a label and a temperature, as many as are compared, evenly spread.
std::vector<int64_t> ComparedRows(const oracle::Inputs& inputs, int64_t* left_out) {
  const std::vector<int64_t> all = inputs.NormalRows();
  const auto count = static_cast<int64_t>(all.size());
  const int64_t most = std::max(kLeastRolloutRows, kMostRolloutLogits / std::max<int64_t>(inputs.v, 1));
  *left_out = std::max<int64_t>(0, count - most);
  return Spread(all, most);
}

// What the dump holds of a neighbour of one of its rows.
std::optional<int64_t> LabelAt(const Dump& dump, int64_t row) {
  if (row < 0 || row >= dump.problem.rows()) return std::nullopt;
  const int64_t label = oracle::ReadInt(dump.problem.labels, row);
  const bool valid = label != dump.problem.ignore_index && label >= 0 && label < dump.problem.vocab();
  return valid ? std::optional(label) : std::nullopt;
}

std::optional<double> ValueAt(const ConstTensor& values, int64_t row) {
  if (row < 0 || row >= values.shape[0]) return std::nullopt;
  const double value = oracle::ReadElement(values, row, 0);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// The rows of one tensor, and those that hold no number counted.
RolloutRows RowsOf(const DumpSample& sample, const ConstTensor& given, const oracle::Inputs& inputs,
                   const std::vector<int64_t>& rows, const ExactLogits& logits, int64_t* not_finite) {
  RolloutRows out;
  out.logits = &logits;
  const Dump& dump = sample.dump();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    const int64_t at = sample.rows()[row];
    const double exact =
        LogprobOf(logits.of(static_cast<int64_t>(i)), inputs.label[row], inputs.temperature[row]);
    const double value = oracle::ReadElement(given, at, 0);
    if (!std::isfinite(exact) || !std::isfinite(value)) {
      ++*not_finite;
      continue;
    }
    out.at.push_back(static_cast<int64_t>(i));
    out.label.push_back(inputs.label[row]);
    out.temperature.push_back(inputs.temperature[row]);
    out.exact.push_back(exact);
    out.given.push_back(value);
    out.label_before.push_back(LabelAt(dump, at - 1));
    out.label_after.push_back(LabelAt(dump, at + 1));
    out.given_before.push_back(ValueAt(given, at - 1));
    out.given_after.push_back(ValueAt(given, at + 1));
  }
  return out;
}

void Measure(const DumpSample& sample, const std::vector<int64_t>& rows, const RolloutRows& given,
             RolloutComparison* out) {
  out->rows = static_cast<int64_t>(given.at.size());
  if (out->rows == 0) return;
  std::vector<double> magnitudes;
  for (size_t i = 0; i < given.at.size(); ++i) {
    const double ratio = given.exact[i] - given.given[i];
    out->mean += ratio;
    out->rms += ratio * ratio;
    const double factor = std::exp(ratio);
    out->outside += factor < 0.9 || factor > 1.1;
    if (out->largest_row < 0 || std::fabs(ratio) > std::fabs(out->largest)) {
      out->largest = ratio;
      const int64_t row = rows[static_cast<size_t>(given.at[i])];
      out->largest_row = sample.rows()[static_cast<size_t>(row)];
    }
    magnitudes.push_back(std::fabs(ratio));
  }
  const auto count = static_cast<double>(out->rows);
  out->mean /= count;
  out->rms = std::sqrt(out->rms / count);
  out->outside /= count;
  std::ranges::sort(magnitudes);
  out->p99 = magnitudes[static_cast<size_t>(std::ceil(0.99 * count)) - 1];
}

std::string PercentText(double share) { return Text("%.3g %%", 100 * share); }

std::string HypothesesText(const RolloutComparison& c) {
  const std::string head = "rollout: " + c.name;
  if (c.rms == 0) return {};
  if (c.hypotheses.empty()) {
    return head + Text(": no cause is looked for in fewer than %" PRId64 " rows\n", kLeastRolloutRows);
  }
  std::string text;
  for (const RolloutHypothesis& h : c.hypotheses) {
    if (!h.explains) continue;
    text += head + ": consistent with this: " + h.what + Text(" (on %" PRId64 " rows", h.tested) +
            " that nothing was fitted on it explains " + PercentText(h.share) +
            Text(" of the log-ratio's energy; RMS %.3g is left)\n", h.left);
  }
  if (!text.empty()) return text;
  text = head + ": none of these explains " + PercentText(RolloutHypothesis::kLeastShare) +
         " of the log-ratio's energy:";
  for (const RolloutHypothesis& h : c.hypotheses) {
    text += (text.back() == ':' ? " " : ", ") + h.what + " " + PercentText(std::max(0.0, h.share));
  }
  return text + "\n";
}

std::string ComparisonText(const RolloutComparison& c) {
  std::string text = "rollout: " + c.name;
  const std::string more =
      (c.not_finite > 0 ? Text("; %" PRId64 " rows hold no finite number", c.not_finite) : "") +
      (c.left_out > 0 ? Text("; %" PRId64 " rows are left out", c.left_out) : "");
  if (c.rows == 0) return text + ": no row could be compared" + more + "\n";
  text +=
      Text(": log-ratio (exact logprob less this) over %" PRId64 " rows: mean %.3g", c.rows, c.mean);
  text += Text(", RMS %.3g, p99 %.3g, largest %.3g (row %" PRId64 ")", c.rms, c.p99, c.largest,
               c.largest_row);
  text += "; " + PercentText(c.outside) + " of ratios outside [0.9, 1.1]" + more + "\n";
  return text + HypothesesText(c);
}

Json ComparisonJson(const RolloutComparison& c) {
  Json json;
  json["rows"] = c.rows;
  json["left_out"] = c.left_out;
  json["not_finite"] = c.not_finite;
  json["hypotheses"] = Json(Json::Array{});
  json["explained_by"] = Json(Json::Array{});
  if (c.rows == 0) return json;
  json["mean"] = c.mean;
  json["rms"] = c.rms;
  json["p99"] = c.p99;
  json["largest"] = c.largest;
  json["largest_row"] = c.largest_row;
  json["outside"] = c.outside;
  for (const RolloutHypothesis& h : c.hypotheses) {
    Json each;
    each["what"] = h.what;
    each["tested"] = h.tested;
    each["share"] = h.share;
    each["left"] = h.left;
    json["hypotheses"].Append(std::move(each));
    if (h.explains) json["explained_by"].Append(h.what);
  }
  return json;
}

}  // namespace

std::string CheckRollouts(const Dump& dump) {
  const int64_t n = dump.problem.rows();
  for (const auto& [name, tensor] : dump.rollouts) {
    if (!kernel::IsFloat(tensor.dtype)) {
      return name + ": dtype " + std::string(kernel::Name(tensor.dtype)) +
             ", must be fp64, fp32, bf16 or fp16";
    }
    if (tensor.rank == 1 && tensor.shape[0] == n) continue;
    return name + ": shape " + ShapeText({tensor.shape, static_cast<size_t>(tensor.rank)}) +
           ", must be " + ShapeText(std::vector{n}) + ", one value a row of hidden" +
           Flattened(tensor, n);
  }
  return {};
}

std::vector<RolloutComparison> CompareRollouts(const DumpSample& sample,
                                               const JudgeDumpOptions& options) {
  std::vector<RolloutComparison> comparisons;
  if (sample.dump().rollouts.empty()) return comparisons;
  kernel::Problem plain = sample.problem();
  plain.grad_logprob.reset();
  plain.grad_entropy.reset();
  const oracle::Inputs inputs = oracle::LoadInputs(plain);
  int64_t left_out = 0;
  const std::vector<int64_t> rows = ComparedRows(inputs, &left_out);
  const ExactLogits logits(plain, rows, options.threads, options.interrupt);
  for (const auto& [name, tensor] : sample.dump().rollouts) {
    if (options.Interrupted()) return {};
    RolloutComparison comparison;
    comparison.name = name;
    comparison.left_out = left_out;
    const RolloutRows given = RowsOf(sample, tensor, inputs, rows, logits, &comparison.not_finite);
    Measure(sample, rows, given, &comparison);
    comparison.hypotheses = ExplainRollout(given, options.threads);
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

void ReportRollouts(const DumpSample& sample, const JudgeDumpOptions& options, DumpReport* report) {
  for (const RolloutComparison& comparison : CompareRollouts(sample, options)) {
    report->sections.push_back(ComparisonText(comparison));
    report->more_json["rollout"][comparison.name] = ComparisonJson(comparison);
  }
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/logit_hypotheses.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "fuzz/base/text.h"
#include "kernel/dtype.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using oracle::Element;
using oracle::Expect;
using oracle::Output;
using oracle::Watched;

// The expected and the recorded values of one row. lse is always there, recorded or not.
using RowFacts = std::map<Output, Watched>;

// Judges the forward outputs of the excerpt; lse is among them even if it was not given.
std::vector<RowFacts> Facts(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads) {
  DumpExcerpt all = excerpt;
  const auto n = static_cast<int64_t>(all.rows.size());
  if (!all.lse) all.lse = HostTensor::Zeros(DType::kF32, {n});
  std::vector<Watched> watched;
  for (int64_t i = 0; i < n; ++i) {
    watched.push_back({Output::kLse, i, 0, {}, 0});
    if (all.logprob) watched.push_back({Output::kLogprob, i, 0, {}, 0});
    if (all.entropy) watched.push_back({Output::kEntropy, i, 0, {}, 0});
  }
  oracle::SweepOptions options;
  options.threads = threads;
  oracle::JudgeProblem(all.problem(), all.results(), contract, options, &watched);
  std::vector<RowFacts> facts(all.rows.size());
  for (const Watched& w : watched) facts[static_cast<size_t>(w.row)].emplace(w.output, w);
  return facts;
}

// The outputs that the excerpt holds: those that fail.
std::vector<Output> Recorded(const DumpExcerpt& e) {
  std::vector<Output> outputs;
  for (const auto& [output, tensor] :
       {std::pair(Output::kLogprob, &e.logprob), std::pair(Output::kEntropy, &e.entropy),
        std::pair(Output::kLse, &e.lse)}) {
    if (*tensor) outputs.push_back(output);
  }
  return outputs;
}

// How far the sum of exponentials is from what it should be, as its logarithm, by one row's lse or by
// its logprob.
struct Moved {
  double by = 0, slack = 0;  // the slack is what the contract and the oracle's own error allow
  double lse = 0;            // the right one
};
std::optional<Moved> MovedOf(const DumpExcerpt& excerpt, const RowFacts& row) {
  const Output by = excerpt.lse ? Output::kLse : Output::kLogprob;
  const Element& lse = row.at(Output::kLse).expected;
  if (lse.expect != Expect::kFinite || !row.contains(by)) return std::nullopt;
  const Watched& w = row.at(by);
  if (w.expected.expect != Expect::kFinite) return std::nullopt;
  const double error = w.got - w.expected.value;
  return Moved{excerpt.lse ? error : -error, w.expected.bound + w.expected.radius, lse.value};
}

float Rounded(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::kBf16 ? kernel::ToFloat(kernel::ToBFloat16(narrow))
                               : kernel::ToFloat(kernel::ToFloat16(narrow));
}

// The hypothesis fits if every value of an output that failed lies on the grid of a 16-bit type and is
// as near as rounding to it would leave it. An fp32 value is on bf16's grid by chance once in 2^16.
void TryStoredNarrow(const std::optional<HostTensor>& got, Output output,
                     const std::vector<RowFacts>& facts, std::vector<Diagnosis>* diagnoses) {
  if (!got || got->size() < 2) return;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const double unit = dtype == DType::kBf16 ? 0x1p-8 : 0x1p-11;  // roundoff
    bool fits = true;
    for (int64_t i = 0; i < got->size() && fits; ++i) {
      const auto value = static_cast<double>(got->GetFloat(i));
      const Element& e = facts[static_cast<size_t>(i)].at(output).expected;
      fits =
          e.expect == Expect::kFinite && static_cast<double>(Rounded(value, dtype)) == value &&
          std::fabs(value - e.value) <= (1 + unit) * (e.bound + e.radius) + unit * std::fabs(e.value);
    }
    if (!fits) continue;
    diagnoses->push_back(
        {std::string(oracle::Name(output)) + " was stored in " + std::string(kernel::Name(dtype)),
         Text("all %" PRId64 " values looked at are of that grid, and nearest to what is right",
              got->size()),
         {output}});
    return;
  }
}

// Computes each row's K from the error of its lse, or of its logprob. The hypothesis fits if all rows
// agree on one integer within their bounds.
void TryPhantomColumns(const DumpExcerpt& excerpt, const std::vector<RowFacts>& facts,
                       std::vector<Diagnosis>* diagnoses) {
  double low = 0.5, high = HUGE_VAL;  // at least one column
  for (const RowFacts& row : facts) {
    const std::optional<Moved> moved = MovedOf(excerpt, row);
    if (!moved) return;
    const double scale = std::exp(moved->lse);
    low = std::max(low, std::expm1(moved->by - moved->slack) * scale);
    high = std::min(high, std::expm1(moved->by + moved->slack) * scale);
  }
  const double columns = std::ceil(low);
  if (!(columns <= high) || !(high - low < 1)) return;  // no integer fits, or more than one
  const auto k = static_cast<int64_t>(columns);
  int64_t tile = 0;
  for (int64_t t = 16; t <= 4096; t *= 2) {
    if ((excerpt.weight.shape[0] + k) % t == 0) tile = t;
  }
  diagnoses->push_back(
      {Text("%" PRId64 " columns of logit 0 that are not in the vocabulary enter the sum", k) +
           (tile > 0
                ? Text("; V + %" PRId64 " is a multiple of %" PRId64 ", a tile whose tail is unmasked",
                       k, tile)
                : ""),
       Text("%zu rows agree on that number", facts.size()), Recorded(excerpt)});
}

double Logit(const DumpExcerpt& e, int64_t row, int64_t column) {
  double z = 0;
  for (int64_t d = 0; d < e.hidden.shape[1]; ++d) {
    z += static_cast<double>(e.hidden.GetFloat(row * e.hidden.shape[1] + d)) *
         oracle::ReadElement(e.weight, column, d);
  }
  return z;
}

double Temperature(const DumpExcerpt& e, int64_t row) {
  return e.temperature ? static_cast<double>(e.temperature->GetFloat(row)) : 1;
}

// Computes the definitions in double, over logits rounded to a 16-bit type.
std::map<Output, double> FromRoundedLogits(const DumpExcerpt& e, int64_t row, DType dtype) {
  const int64_t v = e.weight.shape[0];
  std::vector<double> x(static_cast<size_t>(v));
  for (int64_t c = 0; c < v; ++c) {
    x[static_cast<size_t>(c)] =
        static_cast<double>(Rounded(Logit(e, row, c), dtype)) / Temperature(e, row);
  }
  const double m = *std::max_element(x.begin(), x.end());
  double s = 0, q = 0;
  for (const double value : x) {
    s += std::exp(value - m);
    q += std::exp(value - m) * (m - value);
  }
  const double label = x[static_cast<size_t>(e.labels.GetInt(row))];
  return {{Output::kLogprob, label - m - std::log(s)},
          {Output::kEntropy, std::log(s) + q / s},
          {Output::kLse, m + std::log(s)}};
}

// The hypothesis fits if rounding explains each wrong value to a twentieth of its error. The rest is
// from logits next to a tie, which fp32 and double round to different sides.
void TryRoundedLogits(const DumpExcerpt& excerpt, const std::vector<RowFacts>& facts,
                      std::vector<Diagnosis>* diagnoses) {
  constexpr double kMostProducts = 5e8;  // a few seconds of the loop above
  const double a_row =
      static_cast<double>(excerpt.weight.shape[0]) * static_cast<double>(excerpt.hidden.shape[1]);
  const auto rows = std::min<int64_t>(static_cast<int64_t>(facts.size()), 4);
  if (rows == 0 || a_row * static_cast<double>(rows) > kMostProducts) return;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    int64_t tried = 0;
    bool fits = true;
    for (int64_t i = 0; i < rows && fits; ++i) {
      const std::map<Output, double> assumed = FromRoundedLogits(excerpt, i, dtype);
      for (const auto& [output, w] : facts[static_cast<size_t>(i)]) {
        const Element& e = w.expected;
        const double off = std::fabs(w.got - e.value), slack = e.bound + e.radius;
        const bool recorded = output != Output::kLse || excerpt.lse;
        if (!recorded || e.expect != Expect::kFinite || off <= slack) continue;
        ++tried;
        fits = fits && std::fabs(w.got - assumed.at(output)) <= slack + off / 20;
      }
    }
    if (!fits || tried < 2) continue;
    diagnoses->push_back(
        {"logits were rounded to " + std::string(kernel::Name(dtype)) + " before the softmax",
         Text("it accounts for %" PRId64 " wrong values", tried), Recorded(excerpt)});
    return;
  }
}

// Narrows the range of numbers of leading columns by one row: what the last columns add to the sum,
// from the end on, must be what is missing. Takes at most `cost` products of a hidden value and a
// weight.
bool Narrow(const DumpExcerpt& e, int64_t row, const Moved& moved, double cost, int64_t* least,
            int64_t* most) {
  const double low = -std::expm1(moved.by + moved.slack), high = -std::expm1(moved.by - moved.slack);
  if (!(low > 0)) return false;  // nothing is missing
  const double a_column = static_cast<double>(std::max<int64_t>(e.hidden.shape[1], 1));
  double tail = 0;
  int64_t k = e.weight.shape[0], first = -1;  // of the columns that fit
  for (; k > 1 && cost > 0; --k, cost -= a_column) {
    tail += std::exp(Logit(e, row, k - 1) / Temperature(e, row) - moved.lse);
    if (tail > high) break;
    if (tail >= low && first < 0) first = k - 1;
  }
  if (first < 0 || cost <= 0) return false;
  *most = std::min(*most, first);
  *least = std::max(*least, k);
  return *least <= *most;
}

bool IsZeroRow(const kernel::ConstTensor& weight, int64_t row) {
  for (int64_t d = 0; d < weight.shape[1]; ++d) {
    if (oracle::ReadElement(weight, row, d) != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<int64_t> UnmaskedColumns(const DumpExcerpt& excerpt, const oracle::Contract& contract,
                                       int threads) {
  constexpr double kMostProducts = 2e8;  // a second or two
  const std::vector<RowFacts> facts = Facts(excerpt, contract, threads);
  const int64_t v = excerpt.weight.shape[0];
  int64_t least = 1, most = v - 1;
  for (size_t i = 0; i < facts.size(); ++i) {
    const std::optional<Moved> moved = MovedOf(excerpt, facts[i]);
    const double cost = kMostProducts / static_cast<double>(facts.size());
    if (!moved || !Narrow(excerpt, static_cast<int64_t>(i), *moved, cost, &least, &most)) {
      return std::nullopt;
    }
  }
  if (facts.empty() || least > most) return std::nullopt;
  int64_t padded = v;
  while (padded > least && IsZeroRow(excerpt.weight, padded - 1)) --padded;
  return padded < v && padded <= most ? padded : most;
}

void DiagnoseLogits(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads,
                    std::vector<Diagnosis>* diagnoses) {
  const std::vector<RowFacts> facts = Facts(excerpt, contract, threads);
  const size_t before = diagnoses->size();
  TryStoredNarrow(excerpt.logprob, Output::kLogprob, facts, diagnoses);
  TryStoredNarrow(excerpt.entropy, Output::kEntropy, facts, diagnoses);
  TryStoredNarrow(excerpt.lse, Output::kLse, facts, diagnoses);
  if (diagnoses->size() > before) return;
  TryPhantomColumns(excerpt, facts, diagnoses);
  TryRoundedLogits(excerpt, facts, diagnoses);
}

}  // namespace plumbline::fuzz

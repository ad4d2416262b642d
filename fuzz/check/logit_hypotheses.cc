// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/logit_hypotheses.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <map>
#include <optional>

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

float Rounded(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::kBf16 ? kernel::ToFloat(kernel::ToBFloat16(narrow))
                               : kernel::ToFloat(kernel::ToFloat16(narrow));
}

// The hypothesis fits if every value of an output that failed lies on the grid of a 16-bit type and is
// as near as rounding to it would leave it. An fp32 value is on bf16's grid by chance once in 2^16.
void TryStoredNarrow(const std::optional<HostTensor>& got, Output output,
                     const std::vector<RowFacts>& facts, std::vector<std::string>* sentences) {
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
    sentences->push_back("consistent with this: " + std::string(oracle::Name(output)) +
                         " was stored in " + std::string(kernel::Name(dtype)) +
                         Text(" (all %" PRId64 " values looked at are of that grid, and nearest to "
                              "what is right)",
                              got->size()));
    return;
  }
}

// Computes each row's K from the error of its lse, or of its logprob. The hypothesis fits if all rows
// agree on one integer within their bounds.
void TryPhantomColumns(const DumpExcerpt& excerpt, const std::vector<RowFacts>& facts,
                       std::vector<std::string>* sentences) {
  const Output by = excerpt.lse ? Output::kLse : Output::kLogprob;
  double low = 0.5, high = HUGE_VAL;  // at least one column
  for (const RowFacts& row : facts) {
    const Element& lse = row.at(Output::kLse).expected;
    if (lse.expect != Expect::kFinite || !row.contains(by)) return;
    const Watched& w = row.at(by);
    if (w.expected.expect != Expect::kFinite) return;
    const double error = w.got - w.expected.value, moved = excerpt.lse ? error : -error;
    const double slack = w.expected.bound + w.expected.radius;
    const double scale = std::exp(lse.value);
    low = std::max(low, std::expm1(moved - slack) * scale);
    high = std::min(high, std::expm1(moved + slack) * scale);
  }
  const double columns = std::ceil(low);
  if (!(columns <= high) || !(high - low < 1)) return;  // no integer fits, or more than one
  const auto k = static_cast<int64_t>(columns);
  int64_t tile = 0;
  for (int64_t t = 16; t <= 4096; t *= 2) {
    if ((excerpt.weight.shape[0] + k) % t == 0) tile = t;
  }
  sentences->push_back(
      Text("consistent with this: %" PRId64 " columns of logit 0 that are not in the vocabulary enter "
           "the sum",
           k) +
      (tile > 0 ? Text("; V + %" PRId64 " is a multiple of %" PRId64 ", a tile whose tail is unmasked",
                       k, tile)
                : "") +
      Text(" (%zu rows agree on that number)", facts.size()));
}

// Computes the definitions in double, over logits rounded to a 16-bit type.
std::map<Output, double> FromRoundedLogits(const DumpExcerpt& e, int64_t row, DType dtype) {
  const int64_t v = e.weight.shape[0], h = e.hidden.shape[1];
  std::vector<double> x(static_cast<size_t>(v));
  const double t = e.temperature ? static_cast<double>(e.temperature->GetFloat(row)) : 1;
  for (int64_t c = 0; c < v; ++c) {
    double z = 0;
    for (int64_t d = 0; d < h; ++d) {
      z += static_cast<double>(e.hidden.GetFloat(row * h + d)) * oracle::ReadElement(e.weight, c, d);
    }
    x[static_cast<size_t>(c)] = static_cast<double>(Rounded(z, dtype)) / t;
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
                      std::vector<std::string>* sentences) {
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
    sentences->push_back("consistent with this: logits were rounded to " +
                         std::string(kernel::Name(dtype)) +
                         Text(" before the softmax (it accounts for %" PRId64 " wrong values)", tried));
    return;
  }
}

}  // namespace

void DiagnoseLogits(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads,
                    std::vector<std::string>* sentences) {
  const std::vector<RowFacts> facts = Facts(excerpt, contract, threads);
  const size_t before = sentences->size();
  TryStoredNarrow(excerpt.logprob, Output::kLogprob, facts, sentences);
  TryStoredNarrow(excerpt.entropy, Output::kEntropy, facts, sentences);
  TryStoredNarrow(excerpt.lse, Output::kLse, facts, sentences);
  if (sentences->size() > before) return;
  TryPhantomColumns(excerpt, facts, sentences);
  TryRoundedLogits(excerpt, facts, sentences);
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The sum of grad_weight over the vocabulary is 0 in each column of H, because each row's d_logits add
// up to 0 (CONSISTENCY.md, "Column sums").

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"
#include "fuzz/consistency/gradient_sums.h"
#include "oracle/numeric/pack.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kColumnSums = "column-sums";

// What the arithmetic leaves in each column of H: rigorous, and the usual one's two parts.
struct AllowedSums {
  std::vector<double> most;     // rigorous, without the rounding of grad_weight
  std::vector<double> linear;   // usual: what errors of one sign come to
  std::vector<double> squares;  // usual: the sum of squares of independent errors
};

// Adds a row's part. `times`: the root of how many rows of hidden are alike, which err alike.
void AddRowOfHidden(const ConsistencyContext& c, int64_t row, const std::vector<double>& magnitude,
                    const GradientErrors& of, const GradientErrors& usual_of, double times,
                    AllowedSums* allowed) {
  const auto at = static_cast<size_t>(row);
  const RowErrors& e = c.rows[at];
  const oracle::Arithmetic& a = c.At(row);
  const double columns = static_cast<double>(c.problem.vocab());
  double each = e.d_logits + of.gain * (e.magnitude + e.d_logits + columns * a.least_operand);
  // An operand below 2^-126 may count as 0.
  const double flushed = a.flush_operands ? 0x1p-126 * (e.magnitude + 2 * e.d_logits) : 0;
  for (size_t d = 0; d < magnitude.size(); ++d) {
    allowed->most[d] += each * magnitude[d] + flushed;
  }
  if (!c.statistical()) return;
  const UsualRow& u = c.usual[at];
  const double one_sign = u.errors.unrounded + usual_of.gain * u.errors.magnitude;
  // Both the sum of p as it depends on lse, and half of |dz| rounded on either side.
  const RowInputs inputs = c.InputsOf(row);
  const double moved = e.moved > 0 ? DLogitsChange(inputs, 2 * u.dot_error / inputs.temperature) : 0;
  const double rounded = a.d_logits.u * u.errors.magnitude * std::sqrt(0.5);
  const double squares = times * times * (moved * moved + rounded * rounded);
  for (size_t d = 0; d < magnitude.size(); ++d) {
    allowed->linear[d] += one_sign * magnitude[d];
    allowed->squares[d] += squares * magnitude[d] * magnitude[d];
  }
}

AllowedSums AllowedIn(const ConsistencyContext& c) {
  const int64_t h = c.problem.hidden_size(), n = c.problem.rows();
  const auto size = static_cast<size_t>(h);
  AllowedSums allowed{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  std::vector<double> value(size), magnitude(size);
  const std::vector<double> times = TimesAlike(c);
  for (int64_t i = 0; i < n; ++i) {
    if (c.in().LeftOut(i)) continue;
    const oracle::Arithmetic& a = c.At(i);
    const GradientErrors of = GradientErrorsOf(c, oracle::Output::kGradWeight, a);
    const GradientErrors usual =
        GradientErrorsOf(c, oracle::Output::kGradWeight, UsualArithmetic(a, c.input_rounding));
    oracle::LoadRow(oracle::Matrix::Of(c.problem.hidden), i, h, a.least_operand, value.data(),
                    magnitude.data());
    AddRowOfHidden(c, i, magnitude, of, usual, times[static_cast<size_t>(i)], &allowed);
  }
  return allowed;
}

// Names the row whose label's part is what is left, as far as one row alone explains it.
std::string LabelThatExplains(const ConsistencyContext& c, const std::vector<double>& sums) {
  const int64_t h = c.problem.hidden_size();
  std::vector<double> value(static_cast<size_t>(h));
  const double left = std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0);
  std::string found;
  for (int64_t i = 0; i < c.problem.rows() && h >= 4; ++i) {
    const auto at = static_cast<size_t>(i);
    if (c.in().LeftOut(i) || c.in().g[at] == 0) continue;
    oracle::LoadRow(oracle::Matrix::Of(c.problem.hidden), i, h, 0, value.data(), nullptr);
    const double part = c.in().g[at] / c.in().temperature[at];
    double missing = 0, doubled = 0;
    for (size_t d = 0; d < value.size(); ++d) {
      missing += std::pow(sums[d] + part * value[d], 2);
      doubled += std::pow(sums[d] - part * value[d], 2);
    }
    if (std::min(missing, doubled) > 0.01 * left) continue;
    if (!found.empty()) return {};
    found = Text("; as if the label of row %lld had %s", c.NameOf(i),
                 missing < doubled ? "no part in it" : "its part twice");
  }
  return found;
}

}  // namespace

void CheckColumnSums(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.results.grad_weight || c.problem.hidden_size() == 0 || c.problem.vocab() == 0) return;
  if (const std::string reason = UnfitForSums(c); !reason.empty())
    return c.LeaveOut(kColumnSums, reason);
  const WeightSums& sums = c.weight;
  if (!sums.finite) return c.LeaveOut(kColumnSums, "grad_weight holds NaN or infinity");
  if (!FitsInSums(c)) return c.LeaveOut(kColumnSums, "its sums may overflow");
  const AllowedSums allowed = AllowedIn(c);
  ConsistencyCheck check{.name = kColumnSums, .output = oracle::Output::kGradWeight};
  const double columns = static_cast<double>(c.problem.vocab()),
               tail = TailFactor(c.problem.hidden_size());
  for (size_t d = 0; d < sums.sum.size(); ++d) {
    const double tolerance = (allowed.most[d] + columns * sums.underflow + sums.rounding[d] +
                              columns * 0x1p-52 * sums.magnitude[d]) *
                             (1 + 0x1p-20);
    double usual = std::numeric_limits<double>::infinity();
    if (c.statistical()) {
      usual = allowed.linear[d] + columns * sums.underflow + 0x1p-40 * sums.magnitude[d] +
              tail * std::sqrt(allowed.squares[d] + sums.rounding_squares[d]);
    }
    Compare(std::fabs(sums.sum[d]), tolerance, usual, sums.magnitude[d], -1, static_cast<int64_t>(d),
            &check);
  }
  if (IsBroken(check)) {
    check.what = Text("the columns of grad_weight do not add up to 0: column %lld of H adds up to %s",
                      static_cast<long long>(check.column),
                      Number(sums.sum[static_cast<size_t>(check.column)]).c_str()) +
                 LabelThatExplains(c, sums.sum);
  }
  c.report.checks.push_back(std::move(check));
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// <grad_hidden, hidden> = <grad_weight, weight>: both are the sum of dz z. And row by row
// <grad_hidden_i, hidden_i> = g (logprob + entropy) where no gradient of the entropy is asked for
// (CONSISTENCY.md, "Inner products").

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"
#include "fuzz/consistency/gradient_sums.h"
#include "oracle/numeric/pack.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kInnerProducts = "inner-products";
constexpr std::string_view kRowInnerProducts = "row-inner-products";

// <grad_hidden_i, hidden_i> and what the output's rounding makes of it.
struct RowProduct {
  bool finite = true;
  double value = 0, magnitude = 0, rounding = 0, rounding_squares = 0;
};

RowProduct ProductOf(const ConsistencyContext& c, int64_t row, const GradientErrors& of) {
  const int64_t h = c.problem.hidden_size();
  std::vector<double> got(static_cast<size_t>(h)), hidden(got.size());
  oracle::LoadRow(oracle::Matrix::Of(kernel::AsConst(*c.results.grad_hidden)), row, h, 0, got.data(),
                  nullptr);
  oracle::LoadRow(oracle::Matrix::Of(c.problem.hidden), row, h, 0, hidden.data(), nullptr);
  RowProduct p;
  for (size_t d = 0; d < got.size(); ++d) {
    const double product = got[d] * hidden[d];
    const double rounding = (of.rounding * std::fabs(got[d]) + of.rounding_eta) * std::fabs(hidden[d]);
    p.finite = p.finite && std::isfinite(got[d]);
    p.value += product;
    p.magnitude += std::fabs(product);
    p.rounding += rounding;
    p.rounding_squares += rounding * rounding;
  }
  return p;
}

GradientErrors HiddenErrors(const ConsistencyContext& c, const oracle::Arithmetic& a) {
  return GradientErrorsOf(c, oracle::Output::kGradHidden, a);
}
GradientErrors WeightErrors(const ConsistencyContext& c, const oracle::Arithmetic& a) {
  return GradientErrorsOf(c, oracle::Output::kGradWeight, a);
}

// What forming one gradient of a row leaves in sum dz z, without the output's rounding.
double LeftByGradient(const ConsistencyContext& c, int64_t row, double gain) {
  const RowErrors& e = c.rows[static_cast<size_t>(row)];
  const oracle::Arithmetic& a = c.At(row);
  const double columns = static_cast<double>(c.problem.vocab()),
               largest = c.operands.LargestProduct(row);
  const double flushed =
      a.flush_operands ? 0x1p-126 * (e.magnitude + 2 * e.d_logits) *
                             (c.operands.hidden_sum[static_cast<size_t>(row)] + c.operands.largest) *
                             static_cast<double>(c.problem.hidden_size())
                       : 0;
  return (e.d_logits + gain * (e.magnitude + e.d_logits + columns * a.least_operand)) * largest +
         flushed;
}

// The same of the statistical tier: what has one sign, and the root of the sum of squares of the rest.
struct UsualLeft {
  double one_sign = 0, squares = 0;
};
UsualLeft UsualByGradient(const ConsistencyContext& c, int64_t row, double gain) {
  const UsualRow& u = c.usual[static_cast<size_t>(row)];
  const oracle::Arithmetic& a = c.At(row);
  const double rounded = a.d_logits.u * u.errors.magnitude * u.logit * std::sqrt(0.5);
  const double summed = gain * u.errors.magnitude * u.logit;
  return {u.errors.unrounded * u.logit, rounded * rounded + summed * summed};
}

// The row whose own product is what is left; empty unless there is exactly one.
std::string RowLeftOut(const ConsistencyContext& c, double left, double tolerance,
                       const std::vector<double>& products) {
  int64_t found = -1;
  for (size_t i = 0; i < products.size(); ++i) {
    const double rest = std::fabs(std::fabs(left) - std::fabs(products[i]));
    if (rest > std::max(std::min(tolerance, 0.01 * std::fabs(left)), 1e-3 * std::fabs(left))) continue;
    if (found >= 0) return {};
    found = static_cast<int64_t>(i);
  }
  return found < 0 ? "" : Text("; as if row %lld had no part in grad_weight", c.NameOf(found));
}

}  // namespace

void CheckInnerProducts(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.results.grad_weight || !c.results.grad_hidden || c.problem.hidden_size() == 0) return;
  if (const std::string reason = UnfitForSums(c); !reason.empty())
    return c.LeaveOut(kInnerProducts, reason);
  if (!FitsInSums(c)) return c.LeaveOut(kInnerProducts, "its sums may overflow");
  const WeightSums& weight = c.weight;
  double hidden = 0, tolerance = 0, scale = 0, one_sign = 0, squares = 0;
  bool finite = weight.finite;
  const std::vector<double> times = TimesAlike(c);
  std::vector<double> products;
  for (int64_t i = 0; i < c.problem.rows(); ++i) {
    const auto at = static_cast<size_t>(i);
    products.push_back(0);
    if (c.in().LeftOut(i)) continue;
    const oracle::Arithmetic& a = c.At(i);
    const GradientErrors of_hidden = HiddenErrors(c, a), of_weight = WeightErrors(c, a);
    const RowProduct p = ProductOf(c, i, of_hidden);
    finite = finite && p.finite;
    hidden += products.back() = p.value;
    scale += p.magnitude;
    tolerance += LeftByGradient(c, i, of_hidden.gain) + LeftByGradient(c, i, of_weight.gain) +
                 c.rows[at].passes * c.operands.LargestProduct(i) + p.rounding +
                 of_hidden.underflow * c.operands.hidden_sum[at];
    if (!c.statistical()) continue;
    const oracle::Arithmetic b = UsualArithmetic(a, c.input_rounding);
    const UsualLeft h = UsualByGradient(c, i, HiddenErrors(c, b).gain),
                    w = UsualByGradient(c, i, WeightErrors(c, b).gain);
    const RowInputs inputs = c.InputsOf(i);
    const double moved =
        c.rows[at].moved > 0
            ? DLogitsChange(inputs, 2 * c.usual[at].dot_error / inputs.temperature) * c.usual[at].logit
            : 0;
    one_sign += h.one_sign + w.one_sign + of_hidden.underflow * c.operands.hidden_sum[at];
    squares += times[at] * times[at] * (h.squares + w.squares + moved * moved + p.rounding_squares);
  }
  if (!finite) return c.LeaveOut(kInnerProducts, "a gradient holds NaN or infinity");
  const double lost = 0x1p-50 * static_cast<double>(c.problem.rows() + c.problem.vocab()) *
                      (scale + weight.inner_magnitude);
  tolerance += weight.inner_rounding + weight.underflow * c.operands.weight_sum + lost;
  double usual = std::numeric_limits<double>::infinity();
  if (c.statistical()) {
    usual = one_sign + weight.underflow * c.operands.weight_sum + lost +
            TailFactor(1) * std::sqrt(squares + weight.inner_rounding_squares);
  }
  ConsistencyCheck check{.name = kInnerProducts, .output = oracle::Output::kGradWeight};
  Compare(std::fabs(hidden - weight.inner), tolerance * (1 + 0x1p-20), usual,
          scale + weight.inner_magnitude, -1, -1, &check);
  if (IsBroken(check)) {
    check.what = "<grad_hidden, hidden> is " + Number(hidden) + " and <grad_weight, weight> " +
                 Number(weight.inner) + ": a row or a column is missing in one of them" +
                 RowLeftOut(c, hidden - weight.inner, std::min(check.usual, check.tolerance), products);
  }
  c.report.checks.push_back(std::move(check));
}

namespace {

// Compares one row; its outputs are finite.
void CompareRow(const ConsistencyContext& c, int64_t i, int64_t rows, ConsistencyCheck* check) {
  const auto at = static_cast<size_t>(i);
  const oracle::Arithmetic& a = c.At(i);
  const GradientErrors of = HiddenErrors(c, a);
  const RowProduct p = ProductOf(c, i, of);
  const double logprob = c.Value(c.results.logprob, i), entropy = c.Value(c.results.entropy, i);
  if (!p.finite || !std::isfinite(logprob) || !std::isfinite(entropy)) return;
  const RowErrors& e = c.rows[at];
  const RowInputs inputs = c.InputsOf(i);
  const double g = std::fabs(inputs.g), t = inputs.temperature;
  const double stored =
      c.Stored(oracle::Output::kLogprob, logprob) + c.Stored(oracle::Output::kEntropy, entropy);
  // dz z is compared where dz is of the logits of backward, and logprob and H of those of forward.
  const double forward = e.logprob + e.logprob_slope * std::fabs(logprob) + e.entropy + stored;
  const double tolerance = LeftByGradient(c, i, of.gain) + p.rounding +
                           of.underflow * c.operands.hidden_sum[at] + e.magnitude * t * e.logit +
                           g * (forward + 2 * e.moved + EntropyChange(e.moved, inputs.vocab)) +
                           g * inputs.g_error * std::fabs(logprob + entropy) + 0x1p-40 * p.magnitude;
  double usual = std::numeric_limits<double>::infinity();
  if (c.statistical()) {
    const UsualRow& u = c.usual[at];
    const UsualLeft left =
        UsualByGradient(c, i, HiddenErrors(c, UsualArithmetic(a, c.input_rounding)).gain);
    const double logit = u.dot_error / t, tail = TailFactor(rows);
    double moved = u.errors.magnitude * t * logit;
    if (e.moved > 0) {
      moved += DLogitsChange(inputs, 2 * logit) * u.logit +
               g * (4 * logit + EntropyChange(2 * logit, inputs.vocab));
    }
    const double of_forward =
        u.errors.logprob + u.errors.logprob_slope * std::fabs(logprob) + u.errors.entropy + stored;
    usual = left.one_sign + g * of_forward + of.underflow * c.operands.hidden_sum[at] +
            0x1p-40 * p.magnitude + tail * std::sqrt(left.squares + p.rounding_squares + moved * moved);
  }
  const double expected = inputs.g * (logprob + entropy);
  Compare(std::fabs(p.value - expected), tolerance * (1 + 0x1p-20), usual,
          p.magnitude + g * (std::fabs(logprob) + entropy), i, -1, check);
  if (check->row != i) return;
  check->what = Text("<grad_hidden[%lld], hidden[%lld]> is ", c.NameOf(i), c.NameOf(i)) +
                Number(p.value) + ", and g (logprob + entropy) of that row " + Number(expected);
}

}  // namespace

void CheckRowInnerProducts(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.results.grad_hidden || !c.results.logprob || !c.results.entropy) return;
  if (c.problem.hidden_size() == 0 || !FitsInSums(c)) return;
  ConsistencyCheck check{.name = kRowInnerProducts, .output = oracle::Output::kGradHidden};
  int64_t fit = 0;
  for (int64_t i = 0; i < c.problem.rows(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (c.in().kind[at] != oracle::RowKind::kNormal || c.in().LeftOut(i) || c.in().k[at] != 0) continue;
    if (!c.rows[at].gradient) continue;
    ++fit;
    CompareRow(c, i, c.problem.rows(), &check);
  }
  if (fit == 0)
    return c.LeaveOut(kRowInnerProducts, "no row with finite logits has a gradient of logprob alone");
  if (!IsBroken(check)) check.what.clear();
  c.report.checks.push_back(std::move(check));
}

}  // namespace plumbline::fuzz

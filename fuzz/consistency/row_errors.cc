// SPDX-License-Identifier: Apache-2.0
#include "fuzz/consistency/row_errors.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/budget.h"
#include "oracle/budget/column_terms.h"

namespace plumbline::fuzz {
namespace {

using oracle::Arithmetic;

// Beyond this a row's gradients say nothing: exponentials of backward may be far from 1 in sum.
constexpr double kMostMoved = 4;

// The row with the largest entropy, logits and sums that the inputs allow. All of its weight is in
// `others`, so that no error is left out because the maximum is exact.
oracle::Row WidestRow(const RowInputs& in, double largest_x) {
  oracle::Row row;
  row.temperature = in.temperature;
  row.inverse = row.logit_scale = 1 / in.temperature;
  row.vocab = in.vocab;
  row.max_z = largest_x * in.temperature;
  row.max_x = row.max_abs_x = largest_x;
  row.rest = 0;
  row.inverse_s = 0;
  row.log_s = row.entropy = LargestEntropy(in.vocab);
  row.lse = largest_x + row.log_s;
  row.logprob = 0;
  row.label_z = row.max_z;
  return row;
}

oracle::Moments WidestMoments(const RowInputs& in, double largest_x) {
  oracle::Moments m;
  m.weight = 1;
  m.first = LargestEntropy(in.vocab);
  m.second = LargestSquare(in.vocab);
  m.abs_x = largest_x;
  m.gap = 0;
  return m;
}

// Sums over the vocabulary of what the relative error e^(pi0 + pi1 |ln p|) - 1 of each p makes, with
// the moments of the widest row.
struct ProbabilitySums {
  double p = 0;       // sum of E_p
  double log = 0;     // sum of E_p |ln p|
  double tilted = 0;  // sum of E_p |ln p + H|
};
ProbabilitySums SumsOf(double pi0, double pi1, int64_t vocab) {
  const double l = LargestEntropy(vocab), squares = LargestSquare(vocab);
  const double common = std::expm1(pi0), slope = std::exp(pi0) * pi1 * (1 + 64 * pi1);
  // Weights whose exponent is beyond 110 are below e^-100 with their errors.
  const double beyond = static_cast<double>(vocab) * 0x1p-130;
  return {common + slope * l + beyond, common * l + slope * squares + beyond,
          common * 2 * l + slope * (squares + l * l) + beyond};
}

// "Gradients": B_dz summed over the vocabulary, and with the rounding of d_logits.
void SumGradient(const RowInputs& in, const oracle::GradientTerms& c, double change, RowErrors* e) {
  const Arithmetic& a = c.target;
  const double u = a.u, g = std::fabs(in.g), k = std::fabs(in.k), inverse = 1 / in.temperature;
  const double l = LargestEntropy(in.vocab), columns = static_cast<double>(in.vocab);
  const double scaling = c.k_c * c.row.max_abs_x;
  const double roundings = a.argument_roundings + a.kept_sum;
  const double argument = roundings * (c.budget.shift_change + c.exponent_log) +
                          a.kept_argument * c.budget.shift_change + a.kept_underflow;
  const double slope = roundings + a.kept_argument;
  const ProbabilitySums p =
      SumsOf(change + scaling + c.pi_constant + argument, slope + c.pi_log, in.vocab);
  const double log0 = change + scaling + c.log_constant + argument + 4 * u * change;
  const double log1 = slope + 4 * u;
  const double lost = columns * a.exp_underflow;           // V phi
  const double largest_log = 2 * c.row.max_abs_x + l + 1;  // |ln p| of any column
  const double all = 1 + p.p + lost, logs = l + p.log + lost * largest_log;
  const double first = 2 * g, second = 2 * l * k;
  double total = g * ((p.p + lost) * (1 + u + in.g_error) + 2 * (3 * u + in.g_error));
  if (k > 0) {
    const double entropy = c.budget.entropy_error + EntropyChange(change, in.vocab);
    total += k * (lost * (88 + l) + p.tilted + all * (log0 + entropy + 2 * u * l) + (log1 + u) * logs +
                  8 * u * l);
    if (a.log_softmax_backward) {
      total += all * (c.gradient_sum + 4 * u * k * (1 + log0)) + 4 * u * k * (1 + log1) * logs +
               4 * u * g + 6 * columns * a.result_underflow;
    }
  }
  total += 2 * u * (first + second);
  total += a.result_underflow * columns * (2 + g + 104 + l + k * (2 + largest_log + l));
  const double by_t = a.temperature_division;
  e->magnitude = (first + second) * inverse;
  total = total * inverse * (1 + by_t) + by_t * e->magnitude +
          columns * (a.result_underflow * (4 + (104 + l) * 2) + a.d_logits_lost) +
          std::max(0.0, by_t - 3 * u) * e->magnitude;
  e->unrounded = total * (1 + 0x1p-20);
  if (a.d_logits.u > 0) total += a.d_logits.u * (e->magnitude + total) + columns * a.d_logits.eta;
  e->d_logits = total * (1 + 0x1p-20);
}

// "Unspecified": what may overflow is no error to be charged.
bool GradientFits(const RowInputs& in, const oracle::GradientTerms& c, const RowErrors& e) {
  const double g = std::fabs(in.g), k = std::fabs(in.k), l = LargestEntropy(in.vocab);
  const double largest_log = 2 * c.row.max_abs_x + l + 1;
  const double dz = 8 * (g + k * (1 + l) * (1 + largest_log)) / in.temperature;
  return !c.factor_overflows && !c.budget.entropy_overflows && std::isfinite(e.d_logits) &&
         c.exponent_shift <= kMostMoved && dz <= c.target.d_logits.largest;
}

}  // namespace

double LargestEntropy(int64_t vocab) { return std::log(std::max(2.0, static_cast<double>(vocab))); }

// On [0, 1/e] p ln^2 p is concave, at most two p are larger and come to 2/e, and the others, of sum q,
// come to q ln^2(V/q) <= ln^2 V + 0.74 ln V + 0.55.
double LargestSquare(int64_t vocab) {
  const double l = LargestEntropy(vocab);
  return l * l + 0.74 * l + 1.29;
}

double EntropyChange(double change, int64_t vocab) {
  const double grown = std::exp(change);
  return grown * std::expm1(change) * 2 * LargestEntropy(vocab) + 0.5 * grown * grown * change * change;
}

double DLogitsChange(const RowInputs& in, double change) {
  const double ratio = std::expm1(2 * change);  // of each p: its logit and lse move
  const double of_k = ratio * 2 * LargestEntropy(in.vocab) +
                      (1 + ratio) * (2 * change + EntropyChange(change, in.vocab));
  return (std::fabs(in.g) * ratio + (in.k == 0 ? 0 : std::fabs(in.k) * of_k)) / in.temperature;
}

RowErrors ErrorsOfRow(const RowInputs& in, const Arithmetic& a) {
  RowErrors e;
  const double widest = in.largest_logit / in.temperature;
  if (!(in.largest_logit * std::max(1.0, 1 / in.temperature) <= 0x1p126) ||
      !(in.temperature >= 0x1p-100 && in.temperature <= 0x1p100)) {
    return e;
  }
  e.logit = in.dot_error / in.temperature * (1 + a.scale_roundings) +
            (a.scale_before ? a.scale_roundings * widest : 0);
  const double largest_x = widest + e.logit;
  const oracle::Row row = WidestRow(in, largest_x);
  // ln s may be below ln 2 in the row at hand, where the logarithm's absolute error is added.
  Arithmetic with = a;
  with.log_relative += a.log_absolute / row.log_s;
  const oracle::RowBudget budget =
      oracle::BudgetForward(row, WidestMoments(in, largest_x), {}, {}, with);
  const bool same = a.recompute_same_bits;
  e.moved = same ? 0 : 2 * e.logit;
  const double label_moved = same && !a.label_logit_separate ? 0 : 2 * e.logit;
  // The label's logit moves, and lse with the others.
  const double between = e.moved + label_moved;
  const double fixed = budget.logprob + between, slope = a.argument_roundings + 2.2 * a.u;
  e.logprob = fixed / (1 - slope);  // |logprob| as given is off by as much
  e.logprob_slope = slope / (1 - slope);
  e.entropy = budget.entropy;
  e.forward = !budget.entropy_overflows && std::isfinite(e.logprob) && std::isfinite(e.entropy) &&
              1.1 * a.u * largest_x <= 1 && between <= kMostMoved;
  const oracle::Upstream upstream = {in.g, in.k, in.g_error, false};
  const oracle::GradientTerms terms = oracle::GradientTermsOf(row, budget, with, upstream);
  SumGradient(in, terms, between, &e);
  e.passes = DLogitsChange(in, e.moved);
  e.gradient = e.forward && GradientFits(in, terms, e);
  return e;
}

namespace {

// What n roundings of random signs usually come to: 8 of their root, and a share of 1/64 that has one
// sign, as truncation makes it (Hopper's and Ampere's tensor cores shrink a logit of 4096 products by
// 64 to 77 u, 1/190 of their bound's units).
double UsualUnits(double units) { return std::min(units, 8 * std::sqrt(units) + units / 64); }

double UsualDot(double dot, double input_rounding, double u) {
  const double rounded = input_rounding * (2 + input_rounding);
  return u * UsualUnits(std::max(0.0, dot - rounded) / u) + rounded;
}

}  // namespace

Arithmetic UsualArithmetic(Arithmetic a, double input_rounding) {
  a.dot_logit = UsualDot(a.dot_logit, input_rounding, a.u);
  a.dot_grad_hidden = UsualDot(a.dot_grad_hidden, input_rounding, a.u);
  a.dot_grad_weight = UsualDot(a.dot_grad_weight, input_rounding, a.u);
  // The running maximum of columns in no order moves about ln V times: more than 64 times by a chance
  // of 10^-19 at V = 2^20.
  a.rescales = std::min(a.rescales, 64.0);
  a.sum_depth = UsualUnits(a.sum_depth);
  a.chunks_hidden = UsualUnits(a.chunks_hidden);
  a.chunks_weight = UsualUnits(a.chunks_weight);
  a.d_logits.u = 0;
  return a;
}

double UsualDotError(const Arithmetic& a, double input_rounding, double largest_logit,
                     double usual_logit, double magnitude) {
  const double rounded = input_rounding * (2 + input_rounding);
  const double units = std::max(0.0, a.dot_logit - rounded) / a.u;
  const double partial = std::min(largest_logit, 3 * usual_logit + magnitude);
  return a.u * std::min(units, std::sqrt(units) + units / 64) * partial + rounded * usual_logit;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Evaluating a bound in fp64 loses less than 2^-20 of it for any shape that fits in memory.
constexpr double kEvaluation = 1 + 0x1p-20;

// 0 * infinity is 0 here: a factor that is exactly zero is a term that is not there.
double Times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

// Upper bounds, within 2^-20 relative, cheap where x is small (as nearly always).
double ExpM1Above(double x) {
  if (x < 0x1p-6) return x * (1 + x * (0.5 + x * (1.0 / 6 + x * 0.0425)));
  return std::expm1(x) * (1 + 0x1p-40);
}
double Log1pAbove(double x) {
  if (x < 0x1p-6) return x * (1 - x * (0.5 - x * (1.0 / 3)));
  return std::log1p(x) * (1 + 0x1p-40);
}

// p (e^x - 1), from above. Where x is large p may have underflowed though the product has not.
double Grown(double p, double log_p, double x) {
  if (x < 1) return p * ExpM1Above(x);
  return std::exp(log_p + x) * (1 + 0x1p-40);
}

double LogitRadius(const Row& row, const Arithmetic& a, size_t v, double hidden_size) {
  const double s = row.abs_sum[v];
  const bool certified =
      a.certificate &&
      (s == 0 ||
       (row.lsb[v] >= a.certificate_lsb &&
        s <= std::ldexp(1.0, std::min(row.lsb[v] + static_cast<int>(a.certificate_bits), 127))));
  const double flushed = a.certificate_lsb > -149 && !row.flushable.empty() ? row.flushable[v] : 0;
  if (certified) return flushed;
  return Times(a.dot_logit, s) + (hidden_size + 1) * a.eta + flushed;
}

// P(v): by how much ln p_v can move (ERROR-BUDGET.md, "Propagation").
double LogProbabilityChange(const Row& row, const RowBudget& b, size_t v) {
  const double others = std::max(0.0, b.lse_growth - b.grown[v]) + 0x1p-50 * b.lse_growth;
  const double x = others * (1 + b.growth[v]) + b.growth[v] * row.Complement(static_cast<int64_t>(v));
  return std::isfinite(x) ? Log1pAbove(x) : kInfinity;
}

// delta, growth, E, L, D; true if the maximum cannot change places.
bool PropagateLogits(const Row& row, const Arithmetic& a, int64_t hidden_size, RowBudget* b) {
  const size_t n = row.z.size();
  b->delta.resize(n);
  b->growth.resize(n);
  b->grown.resize(n);
  const double inverse = 1 / row.temperature;
  const double before = a.scale_before ? a.scale_roundings : 0;
  double growth = 0;
  for (size_t v = 0; v < n; ++v) {
    if (row.t[v] == kInfinity) {
      b->delta[v] = b->growth[v] = b->grown[v] = 0;
      continue;
    }
    const double radius = LogitRadius(row, a, v, static_cast<double>(hidden_size));
    b->delta[v] = inverse * (1 + a.scale_roundings) * radius + before * std::fabs(row.z[v] * inverse);
    b->growth[v] = ExpM1Above(b->delta[v]);
    b->grown[v] = Grown(row.p[v], row.LogP(static_cast<int64_t>(v)), b->delta[v]);
    growth += b->grown[v];
  }
  b->lse_growth = growth;
  b->lse_change = std::isfinite(growth) ? Log1pAbove(growth) : kInfinity;

  const double delta_max = b->delta[static_cast<size_t>(row.argmax)];
  double shift = delta_max;
  bool separated = true;
  for (size_t v = 0; v < n; ++v) {
    if (static_cast<int64_t>(v) == row.argmax || row.t[v] == kInfinity) continue;
    shift = std::max(shift, b->delta[v] - row.t[v]);
    separated = separated && row.t[v] >= b->delta[v] + delta_max;
  }
  b->shift_change = shift;
  return separated;
}

}  // namespace

void BudgetForward(const Row& row, const Arithmetic& a, int64_t hidden_size, RowBudget* b) {
  const bool separated = PropagateLogits(row, a, hidden_size, b);
  const bool max_exact = (a.exact_max && separated) || a.sum_excludes_max;
  const size_t n = row.z.size();
  const double count = static_cast<double>(n);
  const double u = a.u, big_l = b->lse_change, shift = b->shift_change;

  // Weights: rho_v, and what they do to s and q.
  const double rho_constant = a.exp_error + a.rescales * (a.exp_error + u);
  double weighted_rho = 0, others = 0, weighted_t = 0, weighted_t_rho = 0, condition = 0,
         second_order = 0;
  for (size_t v = 0; v < n; ++v) {
    const double grown_p = row.p[v] + b->grown[v];
    if (grown_p == 0) continue;
    const double w = grown_p * (1 + b->lse_growth);
    const double t = row.t[v] + b->delta[v] + shift;
    const bool is_max = static_cast<int64_t>(v) == row.argmax;
    const double rho = is_max && max_exact ? 0 : rho_constant + a.argument_roundings * t;
    weighted_rho += w * rho;
    if (!is_max) others += w;
    weighted_t += w * t;
    weighted_t_rho += w * t * rho;
    const double tilt = std::fabs(row.LogP(static_cast<int64_t>(v)) + row.entropy);
    condition += tilt * b->grown[v];
    second_order += w * b->delta[v] * b->delta[v];
  }
  const double gamma_sum = Gamma(a.sum_depth, u);
  const double summation = a.sum_excludes_max ? gamma_sum * others
                           : max_exact        ? std::min(gamma_sum, (1 + 0x1p-8) * others)
                                              : gamma_sum;
  const double underflow = (1 + a.rescales) * count * a.exp_underflow;
  const double rho_s = weighted_rho + summation + underflow;
  b->sum_error = rho_s < 0.25 ? rho_s / (1 - rho_s) : kInfinity;

  const double log_s = row.log_s + big_l;
  const double log_near_one = row.log_s < 0.7 ? a.log_absolute : 0;
  b->log_s_error = b->sum_error + log_near_one + (a.log_relative + 1.1 * u) * log_s;

  const double max_abs = std::fabs(row.max_x), lse_abs = std::fabs(row.lse);
  b->lse = big_l + b->log_s_error + 2.2 * u * (lse_abs + big_l) +
           (a.scale_before ? 0 : (a.scale_roundings + u) * max_abs);

  const auto label = static_cast<size_t>(row.label);
  if (row.t[label] != kInfinity) {
    const double change =
        a.label_logit_separate ? b->delta[label] + big_l : LogProbabilityChange(row, *b, label);
    b->logprob = change + b->log_s_error +
                 a.argument_roundings * (row.t[label] + b->delta[label] + shift) +
                 2.2 * u * (std::fabs(row.logprob) + change);
    if (a.plain_logprob) {
      b->logprob += 6 * u * (max_abs + lse_abs + std::fabs(row.z[label] / row.temperature));
    }
  } else {
    b->logprob = 0;
  }

  const double cond = (1 + b->lse_growth) * condition + 0.5 * second_order;
  b->entropy_error = cond + b->log_s_error + weighted_t_rho +
                     weighted_t * (Gamma(a.sum_depth + 2, u) + b->sum_error + (a.rescales + 4) * u +
                                   a.argument_roundings) +
                     100 * underflow;
  b->entropy = b->entropy_error + 3.2 * u * (row.entropy + cond);
  if (a.plain_entropy) {
    double sum = 0;
    for (size_t v = 0; v < n; ++v) {
      if (row.t[v] != kInfinity) sum += row.p[v] * std::fabs(row.z[v] / row.temperature);
    }
    const double extra = sum * (Gamma(a.sum_depth + 4, u) + rho_constant + b->sum_error) +
                         weighted_t_rho + 8 * u * (max_abs + lse_abs);
    b->entropy += extra;
    b->entropy_error += extra;
  }
  for (double* bound : {&b->lse, &b->logprob, &b->entropy, &b->entropy_error}) {
    *bound *= kEvaluation;
    if (std::isnan(*bound)) *bound = kInfinity;
  }
}

void BudgetGradient(const Row& row, const Arithmetic& a, double g, double k, double g_error,
                    RowBudget* b) {
  const size_t n = row.z.size();
  const double u = a.u, inverse = 1 / row.temperature;
  const double abs_g = std::fabs(g), abs_k = std::fabs(k);
  const double lse_rounding = 2.2 * u * (std::fabs(row.lse) + b->lse_change);
  const double m_rounding = a.scale_before ? 0 : 1.1 * u * std::fabs(row.max_x);
  b->d_logits.resize(n);
  b->d_logits_value.resize(n);
  b->d_logits_overflow = false;
  for (size_t v = 0; v < n; ++v) {
    if (row.t[v] == kInfinity) {  // weight exactly 0: dz is exactly 0
      b->d_logits[v] = b->d_logits_value[v] = 0;
      continue;
    }
    const double p = row.p[v], log_p = row.LogP(static_cast<int64_t>(v));
    const double abs_log_p = std::fabs(log_p);
    const double tilt = std::fabs(log_p + row.entropy);
    const double t = row.t[v] + b->delta[v] + b->shift_change;
    const bool is_label = static_cast<int64_t>(v) == row.label;

    // Relative error of p_v, then of ln p_v.
    const double change =
        a.recompute_same_bits ? LogProbabilityChange(row, *b, v) : b->delta[v] + b->lse_change;
    const double pi = change + a.exp_error + 2 * u +
                      (a.ratio ? b->sum_error + a.argument_roundings * t + a.division
                               : b->log_s_error + a.argument_roundings * t + u * abs_log_p +
                                     lse_rounding + m_rounding);
    const double p_error = Grown(p, log_p, pi);
    const double phi = a.exp_underflow;
    const double log_error = change + b->log_s_error + a.argument_roundings * t +
                             4 * u * (abs_log_p + change) + (a.ratio ? 0 : lse_rounding + m_rounding);

    const double slope = is_label ? row.Complement(row.label) : p;  // |[v = y] - p|
    const double nll = Times(abs_g, (p_error + phi) * (1 + u) + (3 * u + g_error) * slope);
    const double entropy = Times(
        abs_k, Times(tilt, p_error) + phi * std::min(tilt, 88 + row.entropy) +
                   Times(p + p_error + phi, log_error + b->entropy_error + u * (tilt + row.entropy)) +
                   4 * u * p * tilt);
    const double dx_nll = g * (is_label ? slope : -slope);
    const double dx_entropy = p > 0 ? -k * p * (log_p + row.entropy) : 0;
    double bound = nll + entropy + 2 * u * (std::fabs(dx_nll) + std::fabs(dx_entropy));
    bound += a.result_underflow * (2 + abs_g + abs_k * (2 + abs_log_p + row.entropy));

    const double dz = (dx_nll + dx_entropy) * inverse;
    bound = bound * inverse * (1 + 2 * u) + 2 * u * std::fabs(dz) + a.result_underflow;
    if (a.d_logits.u > 0) {
      const double widest = (abs_g + abs_k * (0.5 + std::log(static_cast<double>(n)))) * inverse;
      if (std::fabs(dz) + std::min(bound, widest) > a.d_logits.largest) b->d_logits_overflow = true;
      bound += a.d_logits.u * (std::fabs(dz) + bound) + a.d_logits.eta;
    }
    bound *= kEvaluation;
    b->d_logits[v] = std::isnan(bound) ? kInfinity : bound;
    b->d_logits_value[v] = dz;
  }
}

}  // namespace plumbline::oracle

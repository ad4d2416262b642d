// SPDX-License-Identifier: Apache-2.0
//
// One column of a row, for one thread: the formulas of oracle/budget/budget.cc (ERROR-BUDGET.md,
// "Propagation", "Sums" and "Gradients"). They are written a second time because vectors and threads
// share no source. tests/fuzz/gpu/production/device_case_test.cc holds the two to each other.

#ifndef PLUMBLINE_ORACLE_CUDA_COLUMN_CUH_
#define PLUMBLINE_ORACLE_CUDA_COLUMN_CUH_

#include <cstdint>

#include "oracle/cuda/launch.h"

namespace plumbline::oracle::cuda {

constexpr double kAbove = 1 + 0x1p-40;  // beyond the error of the library's functions, 2 ulp at most

__device__ __forceinline__ double Infinity() { return __longlong_as_double(0x7ff0000000000000LL); }

// Upper bounds of e^x - 1 and ln(1 + x), within 2^-20 relative, for x >= 0. They are cheap where x is
// small.
__device__ __forceinline__ double ExpM1Above(double x) {
  if (x < 0x1p-6) return x * fma(x, fma(x, fma(x, 0.0425, 1.0 / 6), 0.5), 1.0);
  return x < 700 ? expm1(x) * kAbove : Infinity();
}
__device__ __forceinline__ double Log1pAbove(double x) {
  if (x < 0x1p-6) return x * fma(-x, fma(-x, 1.0 / 3, 0.5), 1.0);
  return x < 1e300 ? log1p(x) * kAbove : Infinity();
}
// p (e^x - 1) from ln p + x where x is large: p may have underflowed though the product has not.
__device__ __forceinline__ double Grown(double p, double log_p, double x) {
  if (x < 1) return p * ExpM1Above(x);
  const double power = log_p + x;
  if (!(power < 700)) return Infinity();
  // Rounds up also where the exponential underflows.
  return power < -746 ? 0x1p-1074 : fma(exp(power), kAbove, 0x1p-1074);
}

// A column as both budgets see it. A column with z = -inf is not present.
struct ColumnState {
  bool present;
  double x, t, log_p, p;
  double delta, growth, grown;
};

__device__ __forceinline__ ColumnState LoadColumn(const RowTerms& r, const LogitTerms& a, double z,
                                                  double abs_sum, double weight_lsb) {
  ColumnState s;
  s.present = z > -Infinity();
  if (!s.present) z = r.max_z;
  s.x = z * r.inverse;
  s.t = (r.max_z - z) * r.inverse;
  s.log_p = -(s.t + r.log_s);
  s.p = s.present && s.t < 746 ? exp(-s.t) * r.inverse_s : 0;
  double radius = fma(a.dot, abs_sum, a.underflow);
  if (a.certificate) {
    const double least = r.hidden_lsb * weight_lsb;
    const double limit = fmin(least * a.certificate_limit, 0x1p127);
    if (abs_sum == 0 || (least >= a.least_certified && abs_sum <= limit)) radius = 0;
  }
  s.delta = s.present ? fma(radius, r.scale, fabs(s.x) * r.before) : 0;
  s.growth = ExpM1Above(s.delta);
  s.grown = s.present && s.delta > 0 ? Grown(s.p, s.log_p, s.delta) : 0;
  return s;
}

struct DLogit {
  double value, bound;
  bool overflow;
};

// Exact dz and the bound of dz as stored; both are +0 where z = -inf.
__device__ __forceinline__ DLogit GradientOfColumn(const RowTerms& r, const GradientTerms& g,
                                                   const ColumnState& s, int64_t column) {
  if (!s.present) return {0, 0, false};
  const double u = g.u, abs_g = fabs(g.g), abs_k = fabs(g.k);
  const bool is_label = column == g.label, is_max = column == g.argmax;
  const double signed_tilt = s.log_p + g.entropy, tilt = fabs(signed_tilt), abs_log_p = fabs(s.log_p);
  const double t = s.t + (s.delta + g.shift_change);
  double change = s.delta + g.lse_change;
  if (g.recompute_same_bits) {
    const double others = fmax(0.0, g.lse_growth - s.grown) + g.others_slack;
    const double complement = is_max ? g.max_complement : 1 - s.p;
    const double moved = fma(s.growth, complement, others * (1 + s.growth));
    change = Log1pAbove(isnan(moved) ? Infinity() : moved);
  }
  const double argument = g.argument_roundings * t, scaling = g.k_c * fabs(s.x);
  const double pi = fma(g.pi_log, abs_log_p, (change + scaling) + (g.pi_constant + argument));
  bool overflow = g.exponent_free && (s.delta - s.t) + (scaling + g.exponent_shift) > 88;
  const double p_error = Grown(s.p, s.log_p, pi);
  const double slope = is_label ? g.label_complement : s.p;

  double total = 0, dx = 0, terms = 0;
  if (abs_g > 0) {
    total = abs_g * fma(p_error + g.phi, 1 + u, (3 * u + g.g_error) * slope);
    dx = g.g * (is_label ? slope : -slope);
    terms = fabs(dx);
  }
  if (abs_k > 0) {
    const double log_error =
        ((change + scaling) + (g.log_constant + argument)) + 4 * u * (abs_log_p + change);
    double error = fma(g.phi, fmin(tilt, 88 + g.entropy), tilt * p_error);
    const double inner = (log_error + g.entropy_error) + u * (tilt + g.entropy);
    error = fma(s.p + (p_error + g.phi), inner, error);
    error = fma(4 * u * s.p, tilt, error);
    total = fma(abs_k, error, total);
    const double of_entropy = s.p > 0 ? -g.k * (s.p * signed_tilt) : 0;
    dx += of_entropy;
    terms += fabs(of_entropy);
  }
  total = fma(2 * u, terms, total);
  // A kernel may form k p, which may underflow, before it multiplies by ln p + H, and likewise k / T.
  const double late = abs_k > 0 ? fmin(tilt, 104 + g.entropy) : 0;
  const double underflow = late + fma(abs_k, abs_log_p + (2 + g.entropy), 2 + abs_g);
  total = fma(g.result_underflow, underflow, total);

  const double dz = dx * r.inverse, abs_dz = fabs(dz);
  total = fma(total, r.inverse * (1 + 2 * u),
              fma(2 * u, abs_dz, fma(g.result_underflow, 1 + late, g.d_logits_lost)));
  if (isnan(total)) total = Infinity();
  overflow = overflow || abs_dz + fmin(total, g.widest) > g.d_logits_largest;
  if (g.d_logits_u > 0) total += fma(g.d_logits_u, abs_dz + total, g.d_logits_eta);
  return {dz, total * (1 + 0x1p-20), overflow};
}

}  // namespace plumbline::oracle::cuda

#endif  // PLUMBLINE_ORACLE_CUDA_COLUMN_CUH_

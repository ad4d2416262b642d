// SPDX-License-Identifier: Apache-2.0
//
// One column as both budgets see it, and its part of the sums that the forward budget is made of. The
// formulas are those of ERROR-BUDGET.md, quoted where they stand. Number is Lanes or double
// (oracle/budget/lanes-inl.h).

#if defined(PLUMBLINE_ORACLE_BUDGET_FORWARD_BOUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMBLINE_ORACLE_BUDGET_FORWARD_BOUND_INL_H_
#undef PLUMBLINE_ORACLE_BUDGET_FORWARD_BOUND_INL_H_
#else
#define PLUMBLINE_ORACLE_BUDGET_FORWARD_BOUND_INL_H_
#endif

#include "oracle/budget/budget.h"
#include "oracle/budget/column_terms.h"
#include "oracle/budget/lanes-inl.h"
#include "oracle/budget/row.h"
#include "oracle/defect.h"

PLUMBLINE_FORMULAS_BEGIN

constexpr double kAbove = 1 + 0x1p-40;  // beyond the error of the libraries' functions, 4 ulp at most

// Upper bounds of e^x - 1 and ln(1 + x), within 2^-20 relative, for x >= 0. They are cheap where x is
// small, as it nearly always is.
template <class Number>
PLUMBLINE_FORMULA Number ExpM1Above(Number x) {
  const TruthOf<Number> small = x < 0x1p-6;
  const Number near = x * Fma(x, Fma(x, Fma(x, 0.0425, 1.0 / 6), 0.5), 1);
  if (All(small)) return near;
  const TruthOf<Number> finite = x < 700;
  const Number far = ExpM1(Select(finite, x, 1)) * kAbove;
  return Select(small, near, Select(finite, far, kInfinite));
}
template <class Number>
PLUMBLINE_FORMULA Number Log1pAbove(Number x) {
  const TruthOf<Number> small = x < 0x1p-6;
  const Number near = x * Fma(-x, Fma(-x, 1.0 / 3, 0.5), 1);
  if (All(small)) return near;
  const TruthOf<Number> finite = x < 1e300;
  const Number far = Log1p(Select(finite, x, 1)) * kAbove;
  return Select(small, near, Select(finite, far, kInfinite));
}
// p (e^x - 1) from ln p + x where x is large: p may have underflowed though the product has not.
template <class Number>
PLUMBLINE_FORMULA Number Grown(Number p, Number log_p, Number x) {
  const TruthOf<Number> small = x < 1;
  const Number near = p * ExpM1Above(ZeroUnless(small, x));
  if (All(small)) return near;
  const Number power = log_p + x;
  const TruthOf<Number> finite = power < 700, zero = power < -746;
  // Rounds up also where the exponential underflows.
  const Number full = RareExp(ZeroUnless(finite & !zero, power)) * kAbove + 0x1p-1074;
  const Number far = Select(zero, 0x1p-1074, full);
  return Select(small, near, Select(finite, far, kInfinite));
}

// x* of a magnitude: 0* = 0, else at least `least`. A NaN stays a NaN.
template <class Number>
PLUMBLINE_FORMULA Number Raised(Number magnitude, double least) {
  return Select((magnitude < least) & (magnitude > 0), least, magnitude);
}

// B_z, the most that a logit may be off before the temperature, operands that are flushed apart
// ("Dot products", "Certificate").
template <class Number>
PLUMBLINE_FORMULA Number LogitBound(const RowTerms& r, const LogitTerms& c, Number abs_sum,
                                    Number weight_lsb) {
  // |z' - z| <= gamma(A) S + (H + 1) eta
  const Number bound = Fma(c.dot, abs_sum, c.underflow);
  if (!c.certificate) return bound;
  // z' = z where S <= min(2^(q + 24), 2^127), q of the two rows' lowest bits, or S = 0.
  const Number least = r.hidden_lsb * weight_lsb;
  const double wide = kPlanted == OracleDefect::kCertificateTooWide ? 2 : 1;
  const Number limit = Min(least * (wide * c.certificate_limit), 0x1p127);
  const TruthOf<Number> exact = (abs_sum == 0) | ((least >= c.least_certified) & (abs_sum <= limit));
  return Select(exact, 0, bound);
}

// A column with z = -inf is not present.
template <class Number>
struct Column {
  TruthOf<Number> present;
  Number x, t, log_p, p;
  Number delta;   // the most that x may be off
  Number growth;  // a = e^delta - 1
  Number grown;   // p a, right where p underflows and e^delta does not
};

template <class Number>
PLUMBLINE_FORMULA Column<Number> ColumnOf(const RowTerms& r, Number logit, Number logit_bound) {
  Column<Number> s;
  s.present = logit > -kInfinite;
  const Number z = Select(s.present, logit, r.row.max_z);
  s.x = z * r.row.logit_scale;                  // x = z / T
  s.t = (r.row.max_z - z) * r.row.logit_scale;  // t = m - x
  s.log_p = -(s.t + r.row.log_s);           // ln p = -t - l
  // p = e^-t / s
  s.p = ZeroUnless(s.present & (s.t < 746), Exp(-s.t) * r.row.inverse_s);
  // "Propagation": delta = B_z (1 + scale_roundings u)/T + k_s u |x|
  s.delta = ZeroUnless(s.present, Fma(logit_bound, r.scale, Abs(s.x) * r.before));
  if constexpr (kPlanted == OracleDefect::kNoPropagation) s.delta = 0;
  s.growth = ExpM1Above(s.delta);
  s.grown = ZeroUnless(s.present & (s.delta > 0), Grown(s.p, s.log_p, s.delta));
  return s;
}

// Adds a column to s and to sum e^-t t. A logit of -inf has weight 0, and so has every column whose
// exponential underflows. Sums has the fields of Weights.
template <class Number, class Sums>
PLUMBLINE_FORMULA void AddWeight(Number z, TruthOf<Number> is_max, double max_z, double inverse,
                                 Sums* sum) {
  const Number t = (max_z - z) * inverse;
  const TruthOf<Number> counts = (t < 746) & !is_max;
  const Number e = ZeroUnless(counts, Exp(-t));
  sum->rest = sum->rest + e;
  sum->weighted = sum->weighted + ZeroUnless(counts, e * t);
}

// Adds a column to the sums of "Propagation" and "Sums", where it counts. Sums has the fields of
// Moments.
template <class Number, class Sums>
PLUMBLINE_FORMULA void AddMoments(const Column<Number>& s, TruthOf<Number> counts, double entropy,
                                  Sums* m) {
  const Number grown = ZeroUnless(counts, s.grown);
  const Number w = ZeroUnless(counts, s.p + s.grown);  // w' = p e^delta
  const Number tau = s.t + s.delta, w_tau = w * tau;
  m->grown = m->grown + grown;                                      // E = sum p a
  m->weight = m->weight + w;                                        // sum w'
  m->first = m->first + w_tau;                                      // sum w' tau
  m->second = Fma(w_tau, tau, m->second);                           // sum w' tau^2
  m->condition = Fma(Abs(s.log_p + entropy), grown, m->condition);  // sum |ln p + H| p a
  m->spread = Fma(w * s.delta, s.delta, m->spread);                 // sum w' delta^2
  m->abs_x = Fma(w, Abs(s.x) + s.delta, m->abs_x);                  // sum w' (|x| + delta)
  m->gap = Min(m->gap, Select(counts, s.t - s.delta, kInfinite));   // least t - delta
}

PLUMBLINE_FORMULAS_END

#endif  // PLUMBLINE_ORACLE_BUDGET_FORWARD_BOUND_INL_H_

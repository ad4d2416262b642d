// SPDX-License-Identifier: Apache-2.0
//
// The bound of one d_logit, and the requirement of a gradient's element. The formulas are those of
// ERROR-BUDGET.md, "Gradients" and "Vacuous and unspecified", quoted where they stand. Number is Lanes
// or double (oracle/budget/lanes-inl.h).

#if defined(PLUMBLINE_ORACLE_BUDGET_GRADIENT_BOUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMBLINE_ORACLE_BUDGET_GRADIENT_BOUND_INL_H_
#undef PLUMBLINE_ORACLE_BUDGET_GRADIENT_BOUND_INL_H_
#else
#define PLUMBLINE_ORACLE_BUDGET_GRADIENT_BOUND_INL_H_
#endif

#include <cmath>

#include "oracle/budget/column_terms.h"
#include "oracle/budget/finish.h"
#include "oracle/budget/forward_bound-inl.h"
#include "oracle/budget/lanes-inl.h"
#include "oracle/defect.h"

PLUMBLINE_FORMULAS_BEGIN

// P(v), the most that ln p_v moves.
template <class Number>
PLUMBLINE_FORMULA Number ChangeOf(const GradientTerms& c, const Column<Number>& s,
                                  TruthOf<Number> is_max) {
  // "A backward pass that does not see the forward's very logits has delta_v + L for P(v)."
  if (!c.target.recompute_same_bits) return s.delta + c.budget.lse_change;
  // "Propagation": P(v) = ln1p((E - p_v a_v)(1 + a_v) + a_v (1 - p_v))
  const Number others = Max(0, c.budget.lse_growth - s.grown) + 0x1p-50 * c.budget.lse_growth;
  const Number complement = Select(is_max, c.row.rest * c.row.inverse_s, 1 - s.p);
  const Number moved = Fma(s.growth, complement, others * (1 + s.growth));
  return Log1pAbove(Select(IsNaN(moved), kInfinite, moved));
}

// The error of a probability and of its logarithm.
template <class Number>
struct ProbabilityError {
  Number p;    // E_p
  Number log;  // lambda
};
template <class Number>
PLUMBLINE_FORMULA ProbabilityError<Number> ProbabilityErrorOf(const GradientTerms& c,
                                                              const Column<Number>& s, Number change,
                                                              Number scaling) {
  const Arithmetic& a = c.target;
  const Number abs_log_p = Abs(s.log_p);
  // A = k_a u t', where t' = t + delta + D + sigma; exp(x - lse): k_a u (t' + l')
  const Number gap = s.t + (s.delta + c.budget.shift_change);
  // "Kept exponents": 1.1u (t' + l'), kappa t', for exp(x - lse) k_c u t', and 2^-25 more
  Number argument = (a.argument_roundings + a.kept_sum) * (gap + c.exponent_log);
  if (a.kept_argument > 0) argument = Fma(a.kept_argument, gap, argument + a.kept_underflow);
  // pi = P(v) + eps_exp + 2u + A
  //      + (e/s: rho_s/(1 - rho_s) + eps_div; exp(x - lse): B_l + u |ln p| + mu)
  const Number pi = Fma(c.pi_log, abs_log_p, (change + scaling) + (c.pi_constant + argument));
  // lambda = P(v) + B_l + mu + A + 4u(|ln p| + P(v))
  const Number lambda =
      ((change + scaling) + (c.log_constant + argument)) + 4 * a.u * (abs_log_p + change);
  // "Kept log-probabilities": u_l (|ln p| + lambda) + eta_l more of each.
  Number kept = 0;
  if (a.log_probs.u > 0) kept = Fma(a.log_probs.u, abs_log_p + lambda, a.log_probs.eta);
  Number of_p = Grown(s.p, s.log_p, pi + kept);  // E_p = p (e^pi - 1)
  // "Rounded probabilities": u_p (p + E_p) + eta_p more
  if (a.probabilities.u > 0) of_p = Fma(a.probabilities.u, s.p + of_p, of_p + a.probabilities.eta);
  return {of_p, lambda + kept};
}

template <class Number>
struct DLogit {
  Number value, bound;       // both +0 where z = -inf, but for the label
  TruthOf<Number> overflow;  // dz may be infinite
};

// eta_T without its part min(|ln p + H|, 104 + H): the operations that may underflow once g and k are
// divided by T. One that rounds to nearest loses half of eta_f, one whose result is flushed all of it.
PLUMBLINE_FORMULA double DividedEarly(const Arithmetic& a, double abs_k) {
  if (a.flush) return abs_k > 0 ? 4 : 2;
  return abs_k > 0 ? 1.5 : 1;
}

// "Gradients of log-probabilities", what B_dx has more for k != 0, or where G is stored in 16 bits:
// (p + E_p + phi)(B_S + eps_G |k| (1 + |ln p| + lambda)) + eps_G |g| [v = y] + 6 eta_G
template <class Number>
PLUMBLINE_FORMULA Number OfLogSoftmax(const GradientTerms& c, Number largest_p, Number largest_log,
                                      TruthOf<Number> is_label) {
  const double of_step = c.target.log_gradient;  // eps_G
  const Number at_label = Select(is_label, of_step * std::fabs(c.upstream.g), 0);
  const Number of_sum = Fma(of_step * std::fabs(c.upstream.k), 1 + largest_log, c.gradient_sum);
  return Fma(largest_p, of_sum, at_label + 6 * c.target.log_gradient_underflow);
}

// "Unspecified": |dz| + min(B_dz, W e^X) beyond the dtype of d_logits, or an exponent
// X_v = delta - t + L + D + sigma + (e/s: D + sigma; exp(x - lse): B_l + mu) > 88
template <class Number>
PLUMBLINE_FORMULA TruthOf<Number> MayOverflow(const GradientTerms& c, const Column<Number>& s,
                                              Number abs_dz, Number total, Number largest_log,
                                              Number scaling, TruthOf<Number> is_label) {
  const Arithmetic& a = c.target;
  const double abs_k = std::fabs(c.upstream.k);
  TruthOf<Number> overflow = (s.present & (abs_dz + Min(total, c.widest) > a.d_logits.largest));
  if (a.log_softmax_backward && abs_k > 0) {
    overflow = overflow | (s.present & (abs_k * largest_log > a.largest_log_gradient));
  }
  if (c.factor_overflows) overflow = overflow | s.present | is_label;
  if (c.exponent_free) {
    const Number exponent = (s.delta - s.t) + (scaling + c.exponent_shift);
    overflow = overflow | (s.present & (exponent > 88));
  }
  return overflow;
}

// "Filter": dropped where |[v = y] - p| as computed is below it.
template <class Number>
PLUMBLINE_FORMULA Number Filtered(const Arithmetic& a, Number slope, Number p_error, Number abs_dz,
                                  Number total) {
  if (a.filter == 0) return total;
  const Number least = slope * (1 - 4 * a.u) - p_error * (1 + 4 * a.u);
  return Select(least < a.filter, Max(total, abs_dz), total);
}

// Exact dz and B_dz. is_label and is_max name the row's two special columns.
template <class Number>
PLUMBLINE_FORMULA DLogit<Number> DLogitOf(const GradientTerms& c, const Column<Number>& s,
                                          TruthOf<Number> is_label, TruthOf<Number> is_max) {
  const Arithmetic& a = c.target;
  const double u = a.u, g = c.upstream.g, k = c.upstream.k;
  const double abs_g = std::fabs(g), abs_k = std::fabs(k);
  const Number signed_tilt = s.log_p + c.row.entropy, tilt = Abs(signed_tilt);  // ln p + H
  const Number scaling = c.k_c * (Abs(s.x) + s.delta);  // k_c u (|x| + delta), part of mu
  const ProbabilityError<Number> error = ProbabilityErrorOf(c, s, ChangeOf(c, s, is_max), scaling);
  const Number p_error = error.p + a.exp_underflow;                    // E_p + phi
  const Number largest_log = Abs(s.log_p) + error.log;                 // |ln p| + lambda
  const Number slope = Select(is_label, c.row.label_complement, s.p);  // |[v=y] - p|

  // B_dx = |g| ((E_p + phi)(1 + u + eps_g) + (3u + eps_g) |[v=y] - p|)
  Number total = 0, dx = 0, terms = 0;
  if (abs_g > 0) {
    total = abs_g * Fma(p_error, 1 + u + c.upstream.g_error, (3 * u + c.upstream.g_error) * slope);
    dx = g * Select(is_label, slope, -slope);  // dx = g([v=y] - p) - k p (ln p + H)
    if constexpr (kPlanted == OracleDefect::kLabelSign) dx = -g * slope;
    terms = Abs(dx);
  }
  //      + |k| (|ln p + H| E_p + phi min(|ln p + H|, 88 + H)
  //             + (p + E_p + phi)(lambda + B_H + u (|ln p + H| + H)) + 4u p |ln p + H|)
  if (abs_k > 0) {
    Number of_k = Fma(a.exp_underflow, Min(tilt, 88 + c.row.entropy), tilt * error.p);
    of_k = Fma(s.p + p_error, (error.log + c.budget.entropy_error) + u * (tilt + c.row.entropy), of_k);
    of_k = Fma(4 * u * s.p, tilt, of_k);
    total = Fma(abs_k, of_k, total);
    const double minus_k = kPlanted == OracleDefect::kEntropySign ? k : -k;
    const Number second = ZeroUnless(s.p > 0, minus_k * (s.p * signed_tilt));
    dx = dx + second;
    terms = terms + Abs(second);
  }
  // With k = 0 the sum of G is g, and exact unless G is stored in 16 bits.
  if (a.log_softmax_backward && (abs_k > 0 || a.probabilities.u > 0)) {
    total = total + OfLogSoftmax(c, s.p + p_error, largest_log, is_label);
  }
  //      + 2u (|first| + |second|)
  total = Fma(2 * u, terms, total);
  //      + eta_f (2 + |g| + min(|ln p + H|, 104 + H) + |k| (2 + |ln p| + H))
  // A kernel may form k p, which may underflow, before it multiplies by ln p + H, and likewise k / T.
  const bool late_too = abs_k > 0 && kPlanted != OracleDefect::kNoLateUnderflow;
  const Number late = late_too ? Min(tilt, 104 + c.row.entropy) : Number(0);
  total =
      Fma(a.result_underflow, late + Fma(abs_k, Abs(s.log_p) + (2 + c.row.entropy), 2 + abs_g), total);

  // "Scaled logits": dx is stored, too
  TruthOf<Number> overflow = total < total;  // false in every lane
  if (a.dx.u > 0) {
    overflow = s.present & (Abs(dx) + Min(total, c.widest * c.row.temperature) > a.dx.largest);
    total = total + Fma(a.dx.u, Abs(dx) + total, a.dx.eta);
  }

  // B_dz = B_dx/T (1 + eps_T) + eps_T |dz| + max(0, eps_T - 3u) (|first| + |second|)/T
  //        + eta_T + rho 2^-126
  // g and k may be divided by T before the two terms meet and cancel. 3u of that is in B_dx.
  const Number dz = dx * c.row.inverse, abs_dz = Abs(dz);
  const double by_t = a.temperature_division;
  total = Fma(
      total, c.row.inverse * (1 + by_t),
      Fma(by_t, abs_dz,
          Fma(a.result_underflow, DividedEarly(a, abs_k) + late * (a.flush ? 2 : 1), a.d_logits_lost)));
  if (by_t > 3 * u) total = Fma((by_t - 3 * u) * c.row.inverse, terms, total);
  total = Select(IsNaN(total), kInfinite, total);
  overflow = overflow | MayOverflow(c, s, abs_dz, total, largest_log, scaling, is_label);
  // "then the rounding to the dtype that d_logits are stored in"
  if (a.d_logits.u > 0 && kPlanted != OracleDefect::kNoDLogitsRounding) {
    total = total + Fma(a.d_logits.u, abs_dz + total, a.d_logits.eta);
  }
  total = Filtered(a, slope, p_error, abs_dz, total);
  // Evaluating a bound in fp64 loses less than 2^-20 of it for any shape that fits in memory.
  total = total * (1 + 0x1p-20);
  // A logit of -inf has dz = 0, but for the label's.
  const InfiniteLabel& infinite = c.infinite_label;
  if (infinite.overflow) overflow = overflow | is_label;
  return {Select(s.present, dz, ZeroUnless(is_label, infinite.value)),
          Select(s.present, total, ZeroUnless(is_label, infinite.bound)), overflow};
}

// The error of a term of a gradient for each unit of its operand:
// B_dh = sum over v of (B_dz + gamma(A_V)(|dz| + B_dz)*) |w|*
template <class Number>
PLUMBLINE_FORMULA Number TermError(Number dz, Number bound, double gain, double least) {
  return bound + gain * Raised(Abs(dz) + bound, least);
}

// The requirement of one element of a gradient, from its sums. It is unspecified where it does not fit,
// and vacuous where the bound says nothing.
template <class Number>
struct GradientElement {
  Number bound;
  TruthOf<Number> fits, says;
};

// errors: the sum of the terms' errors, 0 where every product is exactly 0; range: the width of what
// the element can be; limit: the largest that partial sums may become.
template <class Number>
PLUMBLINE_FORMULA GradientElement<Number> GradientElementOf(const GradientSum& sum, Number value,
                                                            Number errors, Number range_of_operands,
                                                            Number limit) {
  // "never less than 4 resolutions of the dtype"
  const Number range = Max(range_of_operands, 4 * (sum.underflow + sum.rounding.eta));
  const Number magnitude = Abs(value);
  // B_dh = sum of the terms' errors + (V + 1) eta, then the output's rounding
  Number bound = errors + sum.underflow;
  // 0 * infinity is NaN: the row's budget says nothing, so this bound says nothing either.
  bound = Select(IsNaN(bound), kInfinite, bound);
  // "Where the whole sum is 0, so is the bound, eta included."
  const TruthOf<Number> exact = errors == 0;
  // A value that may overflow its dtype may be infinite. Where the bound is infinite, the output's
  // range decides, by as much more (largest_kept / limit) as computed sums may be larger than exact
  // ones.
  const Number largest = sum.rounding.largest;
  const TruthOf<Number> in_dtype =
      (magnitude + bound <= largest) | (range * sum.largest_kept <= (largest - magnitude) * limit);
  const TruthOf<Number> fits = exact | (in_dtype & (range <= limit));
  if (sum.rounded && kPlanted != OracleDefect::kNoOutputRounding) {
    bound = bound + Fma(sum.rounding.u, magnitude + bound, sum.rounding.eta);
  }
  bound = Select(exact, 0, bound);
  const TruthOf<Number> says = (bound < range) & (bound * sum.radius_ratio < range);
  return {bound, fits, says};
}

PLUMBLINE_FORMULAS_END

#endif  // PLUMBLINE_ORACLE_BUDGET_GRADIENT_BOUND_INL_H_

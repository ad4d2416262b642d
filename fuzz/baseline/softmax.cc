// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>

#include "fuzz/baseline/kept_exponents.h"

namespace plumbline::fuzz {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr size_t kTile = 128, kLanes = 32;

template <class Real>
Real Round(Real x, kernel::DType dtype) {
  const auto narrow = static_cast<float>(x);
  if (dtype == kernel::DType::kBf16) return kernel::ToFloat(kernel::ToBFloat16(narrow));
  if (dtype == kernel::DType::kF16) return kernel::ToFloat(kernel::ToFloat16(narrow));
  return x;
}

// x rounded as if it were x + nudge; x itself if the dtype rounds nothing.
template <class Real>
Real RoundAbsolutely(Real x, double nudge, kernel::DType dtype) {
  return dtype == kernel::DType::kF32 ? x : Round(x + static_cast<Real>(nudge), dtype);
}

// x rounded as if it were x times `nudged`; x itself if the dtype rounds nothing.
template <class Real>
Real RoundNudged(Real x, Real nudged, kernel::DType dtype) {
  return dtype == kernel::DType::kF32 ? x : Round(x * nudged, dtype);
}

// The relative error of exp(x - lse) where a logit errs by `nudge`: fp32 rounds x, lse and their
// difference, however exact the logit is. 0 without a nudge, and of a probability of 0.
double NudgeOfProbability(double nudge, double temperature, double log_p) {
  constexpr double kRoundings = 0x1p-22;  // four
  if (nudge == 0 || std::isinf(log_p)) return 0;
  return nudge / temperature + std::copysign(kRoundings * (1 + std::abs(log_p)), nudge);
}

template <class Real>
class Row {
 public:
  Row(const Baseline& baseline, std::span<const Real> z, const RowScalars& row)
      : b_(baseline), z_(z), temperature_(row.temperature) {
    int exponent = 0;
    const bool exact = b_.exact_powers && std::frexp(row.temperature, &exponent) == 0.5F;
    scaled_ = b_.scaled_first && !exact;
    // The product of the two constants is rounded, as is each scaled logit.
    if (scaled_) scale_ = static_cast<Real>(kLog2E / static_cast<double>(temperature_));
    exponent_ = static_cast<Real>(Round(kLog2E, b_.shortcuts.exponent) / kLog2E);
  }

  // A logit as the softmax keeps it.
  Real Keep(Real z) const { return scaled_ ? z * scale_ : b_.divided_first ? z / temperature_ : z; }
  Real Kept(size_t v) const { return Keep(z_[v]); }
  // The distance from the maximum, in nats, or in bits where logits are scaled first.
  Real Distance(Real m, Real kept) const {
    const Real d = m - kept;
    return scaled_ || b_.divided_first ? d : d / temperature_;
  }
  // ln p as one fused operation gives it; where logits are scaled.
  Real Fused(const RowForward<Real>& forward, size_t v) const {
    const Real l = std::fma(forward.log_s, static_cast<Real>(kLog2E), forward.shift);
    return std::fma(z_[v], scale_, -l) * kLn2;
  }
  bool scaled() const { return scaled_; }
  // In nats.
  Real Natural(Real x) const { return scaled_ ? x * kLn2 : x; }
  // A kept logit in nats, divided by T.
  Real Scaled(Real kept) const {
    return scaled_ ? kept * kLn2 : b_.divided_first ? kept : kept / temperature_;
  }
  // The inverse of Scaled.
  Real KeptOf(Real x) const {
    return scaled_ ? x * static_cast<Real>(kLog2E) : b_.divided_first ? x : x * temperature_;
  }
  // exp(-t) of a distance.
  Real Exponential(Real t) const {
    return scaled_ ? std::exp2(-t * exponent_) : std::exp(-t * exponent_);
  }
  // The second sum is of e x in place of e t, and the entropy lse less its quotient.
  bool plain() const { return b_.plain_entropy || b_.shortcuts.plain_entropy; }
  size_t size() const { return z_.size(); }

 private:
  static constexpr auto kLn2 = static_cast<Real>(0.693147180559945309);
  const Baseline& b_;
  std::span<const Real> z_;
  Real temperature_;
  bool scaled_ = false;
  Real scale_ = 1, exponent_ = 1;
};

template <class Real>
struct Sums {
  Real m = 0, s = 0, q = 0;  // q is the sum of e t, or e x
};

template <class Real>
void Move(const Row<Real>& row, Real m, Sums<Real>* sums) {
  if (m == sums->m) return;
  const Real d = row.Distance(m, sums->m), f = row.Exponential(d);
  sums->q = f * sums->q + (row.plain() ? 0 : f * row.Natural(d) * sums->s);
  sums->s = f * sums->s;
  sums->m = m;
}

// A term of the sums: e and e t.
template <class Real>
struct Term {
  Real e, et;
};
template <class Real>
Term<Real> TermOf(const Row<Real>& row, Real m, size_t v) {
  const Real t = row.Distance(m, row.Kept(v)), e = row.Exponential(t);
  return {e, e == 0 ? 0 : e * (row.plain() ? row.Scaled(row.Kept(v)) : row.Natural(t))};
}

template <class Real>
Sums<Real> InTiles(const Row<Real>& row) {
  Sums<Real> all;
  for (size_t first = 0; first < row.size(); first += kTile) {
    const size_t count = std::min(kTile, row.size() - first);
    Real m = row.Kept(first);
    for (size_t j = 1; j < count; ++j) m = std::max(m, row.Kept(first + j));
    if (first == 0) all.m = m;
    Move(row, std::max(m, all.m), &all);
    std::array<Real, kTile> e{}, et{};
    for (size_t j = 0; j < count; ++j) {
      const Term<Real> term = TermOf(row, all.m, first + j);
      e[j] = term.e;
      et[j] = term.et;
    }
    for (size_t width = kTile / 2; width > 0; width /= 2) {
      for (size_t j = 0; j < width; ++j) {
        e[j] += e[j + width];
        et[j] += et[j + width];
      }
    }
    all.s += e[0];
    all.q += et[0];
  }
  return all;
}

template <class Real>
Sums<Real> AfterTheMaximum(const Row<Real>& row, size_t lanes) {
  Sums<Real> all;
  all.m = row.Kept(0);
  for (size_t v = 1; v < row.size(); ++v) all.m = std::max(all.m, row.Kept(v));
  std::array<Real, kLanes> s{}, q{};
  for (size_t v = 0; v < row.size(); ++v) {
    const Term<Real> term = TermOf(row, all.m, v);
    s[v % lanes] += term.e;
    q[v % lanes] += term.et;
  }
  for (size_t j = 0; j < lanes; ++j) {
    all.s += s[j];
    all.q += q[j];
  }
  return all;
}

template <class Real>
Sums<Real> SumsOf(const Baseline& baseline, const Row<Real>& row) {
  if (baseline.sum == SumForm::kTiles) return InTiles(row);
  return AfterTheMaximum(row, baseline.sum == SumForm::kLanes ? kLanes : 1);
}

// p and ln p of a column.
template <class Real>
struct Probability {
  Real p, log;
};
template <class Real>
Probability<Real> ProbabilityInFull(const Baseline& baseline, const Row<Real>& row,
                                    const RowForward<Real>& forward, size_t v) {
  const Real t = row.Distance(forward.shift, row.Kept(v));
  const kernel::DType saved = baseline.shortcuts.saved_lse;
  // One form for all baselines where a shortcut makes their exact values differ: else its honest errors
  // would be as large as these differences, and nothing suspect beside it.
  const bool rounded_exponent = baseline.shortcuts.exponent != kernel::DType::kF32;
  if (baseline.fused_lse && row.scaled() && saved == kernel::DType::kF32 && !rounded_exponent) {
    const Real log = row.Fused(forward, v);
    return {std::exp(log), log};
  }
  const Real log =
      baseline.from_lse || saved != kernel::DType::kF32
          ? row.Scaled(row.Kept(v)) - RoundAbsolutely(forward.lse, baseline.shortcuts.nudge, saved)
          : -(row.Natural(t) + forward.log_s);
  if ((baseline.ratio || rounded_exponent) && saved == kernel::DType::kF32)
    return {row.Exponential(t) / forward.s, log};
  return {std::exp(log), log};
}

template <class Real>
Probability<Real> ProbabilityOf(const Baseline& baseline, const Row<Real>& row,
                                const RowForward<Real>& forward, size_t v) {
  Probability<Real> at = ProbabilityInFull(baseline, row, forward, v);
  const Shortcuts& shortcuts = baseline.shortcuts;
  if (shortcuts.log_probs == kernel::DType::kF32) return at;
  at.log = RoundAbsolutely(at.log, shortcuts.nudge, shortcuts.log_probs);
  at.p = std::exp(at.log);
  return at;
}

// -sum p ln p, or lse - sum p x, in lanes.
template <class Real>
Real EntropyOfProbabilities(const Baseline& baseline, const Row<Real>& row,
                            const RowForward<Real>& forward) {
  std::array<Real, kLanes> sum{};
  for (size_t v = 0; v < row.size(); ++v) {
    const Probability<Real> v_ = ProbabilityOf(baseline, row, forward, v);
    const kernel::DType kept = baseline.shortcuts.autograd;
    const Real p = Round(v_.p, kept);
    if (p > 0) sum[v % kLanes] += Round(p * (row.plain() ? row.Scaled(row.Kept(v)) : v_.log), kept);
  }
  Real all = 0;
  for (const Real lane : sum) all += lane;
  return row.plain() ? forward.lse - all : 0 - all;
}

}  // namespace

template <class Real>
std::span<const Real> ShortcutLogits(const Shortcuts& shortcuts, std::span<const Real> z,
                                     float temperature, std::vector<Real>* memory) {
  const Shortcuts none;
  if (shortcuts.logits == none.logits && shortcuts.scaled_logits == none.scaled_logits &&
      shortcuts.log2e == none.log2e && shortcuts.temperature == none.temperature) {
    return z;
  }
  const auto t = static_cast<Real>(temperature), nudge = static_cast<Real>(shortcuts.nudge);
  const auto scale =
      static_cast<Real>(Round(kLog2E, shortcuts.log2e) / kLog2E) * t / Round(t, shortcuts.temperature);
  memory->resize(z.size());
  for (size_t v = 0; v < z.size(); ++v) {
    Real x = z[v];
    if (shortcuts.logits != none.logits) x = Round(x + nudge, shortcuts.logits);
    if (shortcuts.scaled_logits != none.scaled_logits) {
      x = Round((x + nudge) / t, shortcuts.scaled_logits) * t;
    }
    (*memory)[v] = x * scale;
  }
  return *memory;
}

template <class Real>
void RoundOutputs(const Shortcuts& shortcuts, RowForward<Real>* forward) {
  forward->logprob = RoundAbsolutely(forward->logprob, shortcuts.nudge, shortcuts.log_probs);
  forward->logprob = RoundAbsolutely(forward->logprob, shortcuts.nudge, shortcuts.logprob);
  forward->entropy = RoundAbsolutely(forward->entropy, shortcuts.nudge, shortcuts.entropy);
  forward->lse = RoundAbsolutely(forward->lse, shortcuts.nudge, shortcuts.lse);
}

template <class Real>
RowForward<Real> ForwardOf(const Baseline& baseline, std::span<const Real> z,
                           const RowScalars& scalars) {
  const Row<Real> row(baseline, z, scalars);
  const Sums<Real> sums = SumsOf(baseline, row);
  RowForward<Real> out;
  out.shift = sums.m;
  const auto nudged = static_cast<Real>(1 + baseline.shortcuts.nudge);
  out.s = RoundNudged(sums.s, nudged, baseline.shortcuts.softmax_sum);
  out.log_s = std::log(out.s);
  const Real m = row.Scaled(sums.m);
  out.lse = m + out.log_s;
  const Real label = scalars.label_logit ? row.Keep(static_cast<Real>(*scalars.label_logit))
                                         : row.Kept(static_cast<size_t>(scalars.label));
  const bool plain = baseline.plain_logprob || baseline.shortcuts.plain_logprob;
  out.logprob =
      plain ? row.Scaled(label) - out.lse : 0 - (row.Natural(row.Distance(sums.m, label)) + out.log_s);
  const Real mean = sums.q / out.s;
  out.entropy = row.plain() ? out.lse - mean : out.log_s + mean;
  if (baseline.entropy_of_probabilities || baseline.shortcuts.entropy_of_probabilities)
    out.entropy = EntropyOfProbabilities(baseline, row, out);
  return out;
}

template <class Real>
RowForward<Real> ForwardFrom(const Baseline& baseline, double lse, double entropy,
                             const RowScalars& scalars) {
  const Row<Real> row(baseline, {}, scalars);
  RowForward<Real> out;
  out.lse = static_cast<Real>(lse);
  out.entropy = static_cast<Real>(entropy);
  out.shift = row.KeptOf(out.lse);
  out.s = 1;
  return out;
}

template <class Real>
void DLogits(const Baseline& baseline, std::span<const Real> z, const RowScalars& scalars,
             const RowForward<Real>& forward, std::span<Real> d) {
  const Row<Real> row(baseline, z, scalars);
  const auto label = static_cast<size_t>(scalars.label);
  // G of log_softmax's autograd and their sum.
  const kernel::DType kept = baseline.shortcuts.autograd;
  const auto upstream = [&](const Probability<Real>& v, bool is_label) {
    Real of_entropy = 0;
    if (v.p > 0 && kept == kernel::DType::kF32) of_entropy = scalars.k * (v.p * v.log + v.p);
    if (v.p > 0 && kept != kernel::DType::kF32) {
      const Real p = Round(v.p, kept), of_p = Round(Round(scalars.k * v.log, kept) * p, kept);
      of_entropy = Round(of_p + Round(scalars.k * p, kept), kept);
    }
    return Round((is_label ? scalars.g : 0) - of_entropy, kept);
  };
  std::array<Real, kLanes> lanes{};
  Real sum = 0;
  if (scalars.upstream) {
    sum = static_cast<Real>(*scalars.upstream);
  } else if (baseline.log_softmax_backward) {
    for (size_t v = 0; v < z.size(); ++v) {
      lanes[v % kLanes] += upstream(ProbabilityOf(baseline, row, forward, v), v == label);
    }
    for (const Real lane : lanes) sum += lane;
  }
  const Shortcuts& shortcuts = baseline.shortcuts;
  const Real temperature = Round(static_cast<Real>(scalars.temperature), shortcuts.temperature);
  const Real ratio =
      forward.s / RoundNudged(forward.s, static_cast<Real>(1 + shortcuts.nudge), shortcuts.sum);
  std::optional<KeptExponents<Row<float>>> exponents;
  if constexpr (std::is_same_v<Real, float>) {
    if (baseline.kept_bits > 0) exponents.emplace(row, baseline.kept_bits);
  }
  for (size_t v = 0; v < z.size(); ++v) {
    Probability<Real> at = ProbabilityOf(baseline, row, forward, v);
    if constexpr (std::is_same_v<Real, float>) {
      if (exponents && v != label) {
        const float t = exponents->Distance(forward.shift, v);
        at = {row.Exponential(t) / forward.s, -(row.Natural(t) + forward.log_s)};
      }
    }
    const auto nudged = static_cast<Real>(
        1 + NudgeOfProbability(shortcuts.nudge, scalars.temperature, static_cast<double>(at.log)));
    at.p = RoundNudged(at.p * ratio, nudged, shortcuts.probabilities);
    const auto p = static_cast<double>(at.p * nudged);
    if (v == label ? shortcuts.filter_label && std::abs(1 - p) < shortcuts.filter
                   : p < shortcuts.filter) {
      d[v] = 0;
      continue;
    }
    Real dx = 0;
    if (baseline.log_softmax_backward) {
      dx = upstream(at, v == label) - at.p * sum;
    } else {
      const Real slope = v == label ? 1 - at.p : -at.p;
      const Real tilt = at.p > 0 ? at.p * (at.log + forward.entropy) : 0;
      dx = scalars.g * slope - scalars.k * tilt;
    }
    dx = RoundNudged(dx, nudged, shortcuts.d_scaled_logits);
    d[v] = RoundNudged(Round(dx / temperature, baseline.d_logits), nudged, shortcuts.d_logits);
  }
}

template std::span<const float> ShortcutLogits(const Shortcuts&, std::span<const float>, float,
                                               std::vector<float>*);
template std::span<const double> ShortcutLogits(const Shortcuts&, std::span<const double>, float,
                                                std::vector<double>*);
template RowForward<float> ForwardOf(const Baseline&, std::span<const float>, const RowScalars&);
template RowForward<double> ForwardOf(const Baseline&, std::span<const double>, const RowScalars&);
template void DLogits(const Baseline&, std::span<const float>, const RowScalars&,
                      const RowForward<float>&, std::span<float>);
template void DLogits(const Baseline&, std::span<const double>, const RowScalars&,
                      const RowForward<double>&, std::span<double>);
template RowForward<float> ForwardFrom(const Baseline&, double, double, const RowScalars&);
template RowForward<double> ForwardFrom(const Baseline&, double, double, const RowScalars&);
template void RoundOutputs(const Shortcuts&, RowForward<float>*);
template void RoundOutputs(const Shortcuts&, RowForward<double>*);

}  // namespace plumbline::fuzz

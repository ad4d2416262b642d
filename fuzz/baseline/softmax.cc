// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kLog2E = 1.4426950408889634074;
constexpr size_t kTile = 128, kLanes = 32;

float Round(float x, kernel::DType dtype) {
  if (dtype == kernel::DType::kBf16) return kernel::ToFloat(kernel::ToBFloat16(x));
  if (dtype == kernel::DType::kF16) return kernel::ToFloat(kernel::ToFloat16(x));
  return x;
}

// x, off by at most `limit` u of it, evenly spread by its own bits, so that it is the same twice.
float Off(float x, double limit) {
  if (limit == 0 || x == 0) return x;
  const double even = static_cast<double>(Mix(1, std::bit_cast<uint32_t>(x)) >> 11) * 0x1p-52 - 1;
  return static_cast<float>(static_cast<double>(x) * (1 + limit * kUnit * even));
}

class Row {
 public:
  Row(const Baseline& baseline, std::span<const float> z, const RowScalars& row)
      : b_(baseline), z_(z), temperature_(row.temperature) {
    // The product of the two constants is rounded, as is each scaled logit.
    if (b_.scaled_first) scale_ = static_cast<float>(kLog2E / static_cast<double>(temperature_));
  }

  // A logit as the softmax keeps it.
  float Kept(size_t v) const {
    return Off(b_.scaled_first ? z_[v] * scale_ : z_[v], b_.scale_roundings);
  }
  // The distance from the maximum, in nats, or in bits where logits are scaled first.
  float Distance(float m, float kept) const {
    const float d = m - kept;
    return b_.scaled_first ? d : d / temperature_;
  }
  // In nats.
  float Natural(float x) const { return b_.scaled_first ? x * kLn2 : x; }
  // exp(-t) of a distance.
  float Exponential(float t) const {
    const float argument = Off(t, b_.argument_roundings);
    const float e = b_.scaled_first ? std::exp2(-argument) : std::exp(-argument);
    return t == 0 ? e : Off(e, b_.exp_error);
  }
  size_t size() const { return z_.size(); }

 private:
  static constexpr float kLn2 = 0.693147180559945309f;
  const Baseline& b_;
  std::span<const float> z_;
  float temperature_;
  float scale_ = 1;
};

struct Sums {
  float m = 0, s = 0, q = 0;  // q is the sum of e t
};

void Move(const Row& row, float m, Sums* sums) {
  if (m == sums->m) return;
  const float d = row.Distance(m, sums->m), f = row.Exponential(d);
  sums->q = f * sums->q + f * row.Natural(d) * sums->s;
  sums->s = f * sums->s;
  sums->m = m;
}

// A term of the sums: e and e t.
struct Term {
  float e, et;
};
Term TermOf(const Row& row, float m, size_t v) {
  const float t = row.Distance(m, row.Kept(v)), e = row.Exponential(t);
  return {e, e == 0 ? 0 : e * row.Natural(t)};
}

Sums InTiles(const Row& row) {
  Sums all;
  for (size_t first = 0; first < row.size(); first += kTile) {
    const size_t count = std::min(kTile, row.size() - first);
    float m = row.Kept(first);
    for (size_t j = 1; j < count; ++j) m = std::max(m, row.Kept(first + j));
    if (first == 0) all.m = m;
    Move(row, std::max(m, all.m), &all);
    std::array<float, kTile> e{}, et{};
    for (size_t j = 0; j < count; ++j) {
      const Term term = TermOf(row, all.m, first + j);
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

Sums AfterTheMaximum(const Row& row, size_t lanes) {
  Sums all;
  all.m = row.Kept(0);
  for (size_t v = 1; v < row.size(); ++v) all.m = std::max(all.m, row.Kept(v));
  std::array<float, kLanes> s{}, q{};
  for (size_t v = 0; v < row.size(); ++v) {
    const Term term = TermOf(row, all.m, v);
    s[v % lanes] += term.e;
    q[v % lanes] += term.et;
  }
  for (size_t j = 0; j < lanes; ++j) {
    all.s += s[j];
    all.q += q[j];
  }
  return all;
}

Sums SumsOf(const Baseline& baseline, const Row& row) {
  if (baseline.sum == SumForm::kTiles) return InTiles(row);
  return AfterTheMaximum(row, baseline.sum == SumForm::kLanes ? kLanes : 1);
}

// p and ln p of a column.
struct Probability {
  float p, log;
};
Probability ProbabilityOf(const Baseline& baseline, const Row& row, const RowForward& forward,
                          size_t v) {
  const float t = row.Distance(forward.shift, row.Kept(v));
  const float log = -(row.Natural(t) + forward.log_s);
  if (baseline.ratio) {
    return {Off(row.Exponential(t) / forward.s, baseline.division_error), log};
  }
  return {Off(std::exp(log), baseline.exp_error), log};
}

// -sum p ln p in lanes.
float EntropyOfProbabilities(const Baseline& baseline, const Row& row, const RowForward& forward) {
  std::array<float, kLanes> sum{};
  for (size_t v = 0; v < row.size(); ++v) {
    const Probability v_ = ProbabilityOf(baseline, row, forward, v);
    if (v_.p > 0) sum[v % kLanes] += v_.p * v_.log;
  }
  float all = 0;
  for (const float lane : sum) all += lane;
  return 0 - all;
}

}  // namespace

RowForward ForwardOf(const Baseline& baseline, std::span<const float> z, const RowScalars& scalars) {
  const Row row(baseline, z, scalars);
  const Sums sums = SumsOf(baseline, row);
  RowForward out;
  out.shift = sums.m;
  out.s = sums.s;
  out.log_s = std::log(sums.s);
  const float m = baseline.scaled_first ? row.Natural(sums.m) : sums.m / scalars.temperature;
  out.lse = m + out.log_s;
  const float label = row.Kept(static_cast<size_t>(scalars.label));
  const float x = baseline.scaled_first ? row.Natural(label) : label / scalars.temperature;
  out.logprob =
      baseline.plain_logprob ? x - out.lse : 0 - (row.Natural(row.Distance(sums.m, label)) + out.log_s);
  const float mean = sums.q / sums.s;
  // sum p x = m - sum p t.
  out.entropy = baseline.plain_entropy ? out.lse - (m - mean) : out.log_s + mean;
  if (baseline.entropy_of_probabilities) out.entropy = EntropyOfProbabilities(baseline, row, out);
  return out;
}

void DLogits(const Baseline& baseline, std::span<const float> z, const RowScalars& scalars,
             const RowForward& forward, std::span<float> d) {
  const Row row(baseline, z, scalars);
  const auto label = static_cast<size_t>(scalars.label);
  // G of log_softmax's autograd and their sum.
  const auto upstream = [&](const Probability& v, bool is_label) {
    return (is_label ? scalars.g : 0) - (v.p > 0 ? scalars.k * (v.p * v.log + v.p) : 0);
  };
  std::array<float, kLanes> lanes{};
  float sum = 0;
  if (baseline.log_softmax_backward) {
    for (size_t v = 0; v < z.size(); ++v) {
      lanes[v % kLanes] += upstream(ProbabilityOf(baseline, row, forward, v), v == label);
    }
    for (const float lane : lanes) sum += lane;
  }
  for (size_t v = 0; v < z.size(); ++v) {
    const Probability at = ProbabilityOf(baseline, row, forward, v);
    float dx = 0;
    if (baseline.log_softmax_backward) {
      dx = upstream(at, v == label) - at.p * sum;
    } else {
      const float slope = v == label ? 1 - at.p : -at.p;
      const float tilt = at.p > 0 ? at.p * (at.log + forward.entropy) : 0;
      dx = scalars.g * slope - scalars.k * tilt;
    }
    d[v] = Round(dx / scalars.temperature, baseline.d_logits);
  }
}

}  // namespace plumbline::fuzz

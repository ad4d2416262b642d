// SPDX-License-Identifier: Apache-2.0

#include "tests/oracle/simulated_kernel.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/verdict/verdict.h"
#include "tests/oracle/log_softmax_backward.h"
#include "tests/oracle/machine.h"

namespace plumbline::oracle {
namespace {

using kernel::Problem;
using kernel::Reduction;
// A part of the sums. q is sum e t, or sum e x where the contract says so.
struct State {
  bool empty = true;
  Real m = 0, s = 0, q = 0;
};

class Kernel {
 public:
  Kernel(const Problem& problem, const Contract& contract, uint64_t seed)
      : p_(problem), c_(contract), fl_(contract, problem.hidden.dtype, seed) {
    fused_entropy_ = fl_.Flip();
    reciprocal_ = fl_.Flip();
    shift_up_ = fl_.Flip();
    early_scale_ = fl_.Flip();
    quotient_ = fl_.Flip();
    steer_ = static_cast<int>(fl_.Flip()) + 2 * static_cast<int>(fl_.Flip());
  }
  Simulated Run();

 private:
  std::vector<Real> Row(const kernel::ConstTensor& tensor, int64_t i) const {
    std::vector<Real> row;
    for (int64_t d = 0; d < tensor.shape[1]; ++d) {
      row.push_back(static_cast<Real>(ReadElement(tensor, i, d)));
    }
    return row;
  }
  // The roundings of 1/T in this row.
  double ScaleRoundings() const {
    int exponent = 0;
    const bool power = std::frexp(t_, &exponent) == 0.5L;
    return power && c_.scale_exact_powers ? 0 : c_.scale_roundings;
  }
  Real Scaled(Real z) { return fl_.Round(z / t_, kScale, ScaleRoundings()); }
  // A logit as it is kept: scaled if the scale comes first, and in the dtype declared.
  Real Kept(Real z) {
    z = Machine::Nearest(z, Step(c_.logits));
    return before_ ? Machine::Nearest(Scaled(z), Step(c_.scaled_logits)) : z;
  }
  void SteerTo(size_t v);
  // The logits that the kernel keeps, divided by T if the scale comes first.
  std::vector<Real> Logits();
  // m - x for kept logits.
  Real Gap(Real m, Real x) {
    return before_ ? fl_.Round(m - x, kArgument, c_.argument_roundings)
                   : fl_.Round((m - x) / t_, kArgument, c_.argument_roundings + ScaleRoundings());
  }
  std::optional<kernel::DType> Step(const StepDType& step) const { return step.For(p_.hidden.dtype); }
  kernel::DType DLogitsDtype() const { return c_.d_logits.value_or(p_.hidden.dtype); }
  // An output in the dtype declared for it, a gradient in that of its tensor, too.
  Real Written(Real x, Output output) {
    const auto declared = Step(c_.outputs[static_cast<size_t>(output)]);
    const bool gradient = output == Output::kGradHidden || output == Output::kGradWeight;
    const bool again = gradient && declared != p_.hidden.dtype;
    const Real stored = fl_.Store(x, declared);
    x = x < 0 ? std::min(stored, 0.0L) : std::max(stored, 0.0L);  // rounding keeps a sign
    return again ? fl_.Store(x, p_.hidden.dtype) : x;
  }
  // A gradient divided by T: a quotient, a product with a rounded 1/T, or with the 1/T of the logits.
  Real OverT(Real x) {
    if (quotient_) return fl_.Divide(x, t_);
    if (reciprocal_) return fl_.Round(x * fl_.Round(1 / t_, kProduct), kProduct);
    return fl_.Round(x / t_, kProduct, std::max(1.0, ScaleRoundings()));
  }
  struct Probability {
    Real p, log;
  };
  Probability ProbabilityOf(Real x);
  Probability BackwardProbability(const std::vector<Real>& x, size_t v);
  Real EntropyTerms(const std::vector<Real>& x, size_t first, size_t last);
  Real ShiftOf(Real m) const;
  void MoveTo(Real m, State* state);
  State Tile(const std::vector<Real>& x, size_t first, size_t last, Real m);
  void Merge(State tile, State* state);
  State Softmax(const std::vector<Real>& x);
  void Forward(int64_t i);
  void Backward(int64_t i, const std::vector<Real>& x);

  const Problem& p_;
  const Contract& c_;
  Machine fl_;
  bool fused_entropy_ = false, reciprocal_ = false, shift_up_ = false, early_scale_ = false,
       quotient_ = false;
  int steer_ = 0;
  bool before_ = false;
  Real t_ = 1;
  size_t y_ = 0;
  std::vector<Real> h_;
  std::vector<std::vector<Real>> w_;
  std::vector<Real> kept_;
  std::vector<Real> exact_tilt_;  // ln p + H, whose sign is the way in which a logit moves the entropy
  State state_;
  Real log_s_ = 0, lse_ = 0, entropy_ = 0, logprob_ = 0;
  std::vector<std::vector<Real>> dz_;  // for the rows that take part
  std::vector<int64_t> rows_;
  int64_t counted_ = 0;
  Simulated out_;
};

// Makes the logits err together: the label's against the others', or all so that the entropy falls or
// rises.
void Kernel::SteerTo(size_t v) {
  const int sign = steer_ == 0   ? (v == y_ ? 1 : -1)
                   : steer_ == 1 ? (v == y_ ? -1 : 1)
                   : steer_ == 2 ? (exact_tilt_[v] < 0 ? 1 : -1)
                                 : (exact_tilt_[v] < 0 ? -1 : 1);
  fl_.Steer(sign);
}

std::vector<Real> Kernel::Logits() {
  std::vector<Real> x;
  for (size_t v = 0; v < w_.size(); ++v) {
    SteerTo(v);
    x.push_back(Kept(fl_.Dot(h_, w_[v])));
  }
  return x;
}

// Returns what is subtracted from kept logits: their maximum, or the maximum rounded once more.
Real Kernel::ShiftOf(Real m) const {
  return c_.shift == Shift::kExactMax ? m : m * (1 + (shift_up_ ? kU : -kU));
}

void Kernel::MoveTo(Real m, State* state) {
  if (state->m == m) return;
  const Real gap = Gap(m, state->m), f = fl_.Exp(-gap);
  const bool shifts = f != 0 && !c_.plain_entropy;
  const Real moved = shifts ? fl_.Round(fl_.Round(f * gap, kSum) * state->s, kSum) : 0;
  state->q = fl_.Add(fl_.Round(f * state->q, kSum), moved, kSum);
  state->s = fl_.Round(f * state->s, kSum);
  state->m = m;
}

State Kernel::Tile(const std::vector<Real>& x, size_t first, size_t last, Real m) {
  if (last - first == 1) {
    const Real gap = Gap(m, x[first]), e = fl_.Exp(-gap);
    const Real term = !c_.plain_entropy ? gap : before_ ? x[first] : Scaled(x[first]);
    return {false, m, e, e == 0 ? 0 : fl_.Round(e * term, kSum)};
  }
  const size_t middle = first + (last - first + 1) / 2;
  State a = Tile(x, first, middle, m);
  const State b = Tile(x, middle, last, m);
  a.s = fl_.Add(a.s, b.s, kSum);
  a.q = fl_.Add(a.q, b.q, kSum);
  return a;
}

void Kernel::Merge(State other, State* state) {
  if (state->empty) {
    *state = other;
    return;
  }
  const Real m = std::max(state->m, other.m);
  MoveTo(m, state);
  MoveTo(m, &other);
  state->s = fl_.Add(state->s, other.s, kSum);
  state->q = fl_.Add(state->q, other.q, kSum);
}

State Kernel::Softmax(const std::vector<Real>& x) {
  const auto tile = static_cast<size_t>(c_.tile), splits = static_cast<size_t>(c_.splits);
  const size_t tiles = (x.size() + tile - 1) / tile, each = (tiles + splits - 1) / splits;
  // A kernel whose contract states its rescales finds the maximum first: the maximum of the tiles,
  // which are then moved to it once each, or of the columns.
  std::optional<Real> found;
  if (c_.rescales) found = ShiftOf(*std::max_element(x.begin(), x.end()));
  State all;
  for (size_t begin = 0; begin < tiles; begin += each) {
    State part;
    for (size_t k = begin; k < std::min(tiles, begin + each); ++k) {
      const size_t first = k * tile, last = std::min(x.size(), first + tile);
      Real m = *std::max_element(x.begin() + static_cast<int64_t>(first),
                                 x.begin() + static_cast<int64_t>(last));
      m = ShiftOf(m);
      if (!found && !part.empty) m = std::max(m, part.m);
      if (found && *c_.rescales == 0) m = *found;
      State state = Tile(x, first, last, m);
      if (found) MoveTo(*found, &state);
      Merge(state, &part);
    }
    Merge(part, &all);
  }
  return all;
}

// p and ln p of a kept logit.
Kernel::Probability Kernel::ProbabilityOf(Real x) {
  if (c_.probability == oracle::Probability::kRatio) {
    const Real gap = Gap(state_.m, x);
    return {fl_.Divide(fl_.Exp(-gap), state_.s), -fl_.Round(gap + log_s_, kProbability)};
  }
  const double roundings = std::max(1.0, c_.argument_roundings);
  const Real difference = fl_.Round((before_ ? x : Scaled(x)) - lse_, kArgument, roundings);
  const Real log = fl_.Store(difference, Step(c_.log_probs));
  return {fl_.Exp(log), log};
}

// Those of column v in backward, where exponents may be kept.
Kernel::Probability Kernel::BackwardProbability(const std::vector<Real>& x, size_t v) {
  if (c_.kept_argument == 0 || p_.hidden.dtype != kernel::DType::kBf16) return ProbabilityOf(x[v]);
  const Real m = TopOfTile(x, v), kept = fl_.Kept(Gap(m, x[v]));
  if (c_.probability == oracle::Probability::kRatio) {
    const Real gap = fl_.Round(kept + Gap(state_.m, m), kArgument);
    return {fl_.Divide(fl_.Exp(-gap), state_.s), -fl_.Round(gap + log_s_, kProbability)};
  }
  const double roundings = std::max(1.0, c_.argument_roundings);
  const Real far = fl_.Round((before_ ? m : Scaled(m)) - lse_, kArgument, roundings);
  const Real log = fl_.Round(far - kept, kArgument);
  return {fl_.Exp(log), log};
}

// The sum of p ln p, or of p x where the entropy is plain, over a part of the columns.
Real Kernel::EntropyTerms(const std::vector<Real>& x, size_t first, size_t last) {
  if (last - first == 1) {
    const Probability v = ProbabilityOf(x[first]);
    const Real p = fl_.Store(v.p, Step(c_.probabilities));
    if (p == 0) return 0;
    const Real other = !c_.plain_entropy ? v.log : before_ ? x[first] : Scaled(x[first]);
    return fl_.Store(fl_.Round(p * other, kSum), Step(c_.probabilities));
  }
  const size_t middle = first + (last - first + 1) / 2;
  const Real a = EntropyTerms(x, first, middle);
  return fl_.Round(a + EntropyTerms(x, middle, last), kSum);
}

void Kernel::Forward(int64_t i) {
  h_ = Row(p_.hidden, i);
  t_ = p_.temperature ? static_cast<Real>(ReadElement(*p_.temperature, i, 0)) : 1;
  before_ = c_.scale == Scale::kBefore || Step(c_.scaled_logits);

  std::vector<Real> x;
  for (const auto& w : w_) {
    Real z = 0;
    for (size_t d = 0; d < h_.size(); ++d) z += h_[d] * w[d];
    x.push_back(z / t_);
  }
  const Real top = *std::max_element(x.begin(), x.end());
  Real s = 0, q = 0;
  for (const Real v : x) s += std::exp(v - top);
  for (const Real v : x) q += std::exp(v - top) * (v - top);
  exact_tilt_.clear();
  for (const Real v : x) exact_tilt_.push_back(v - top - q / s);

  kept_ = Logits();
  state_ = Softmax(kept_);
  state_.s = fl_.Store(state_.s, Step(c_.softmax_sum));
  log_s_ = fl_.Log(state_.s);
  const bool scaled = before_ || c_.shift != Shift::kExactMax;
  const Real m = scaled ? (before_ ? state_.m : state_.m / t_) : Scaled(state_.m);
  lse_ = fl_.Add(m, log_s_, kOutput);

  SteerTo(y_);
  Real label = kept_[y_];
  if (c_.label_logit_separate) {
    label = Kept(fl_.Dot(h_, w_[y_]));
  }
  const Real plain_label = before_ ? label : Scaled(label);
  const double roundings = std::max(1.0, c_.argument_roundings);
  Real logprob = c_.plain_logprob ? fl_.Round(plain_label - lse_, kOutput, roundings)
                                  : -fl_.Add(Gap(state_.m, label), log_s_, kOutput);
  logprob = std::min(fl_.Store(logprob, Step(c_.log_probs)), 0.0L);

  const Real mean = fl_.Divide(state_.q, state_.s);
  entropy_ = c_.plain_entropy ? fl_.Round(lse_ - mean, kOutput) : fl_.Add(log_s_, mean, kOutput);
  if (c_.entropy_of_probabilities) {
    const Real sum = EntropyTerms(kept_, 0, kept_.size());
    entropy_ = c_.plain_entropy ? fl_.Round(lse_ - sum, kOutput) : -sum;
  }
  entropy_ = std::max(entropy_, 0.0L);
  const auto r = static_cast<size_t>(i);
  out_.logprob[r] = static_cast<double>(Written(logprob, Output::kLogprob));
  out_.entropy[r] = static_cast<double>(Written(entropy_, Output::kEntropy));
  out_.lse[r] = static_cast<double>(Written(lse_, Output::kLse));
  logprob_ = logprob;
}

void Kernel::Backward(int64_t i, const std::vector<Real>& x) {
  Real g = p_.grad_logprob ? static_cast<Real>(ReadElement(*p_.grad_logprob, i, 0)) : 0;
  Real k = p_.grad_entropy ? static_cast<Real>(ReadElement(*p_.grad_entropy, i, 0)) : 0;
  g = Machine::Nearest(g, Step(c_.upstream_logprob));
  k = Machine::Nearest(k, Step(c_.upstream_entropy));
  if (p_.reduction == Reduction::kMean) {
    g = fl_.Divide(-g, static_cast<Real>(counted_));
  } else if (p_.reduction == Reduction::kSum) {
    g = -g;
  }
  if (g == 0 && k == 0) return;
  std::optional<kernel::DType> of_dx;
  if (Step(c_.scaled_logits)) of_dx = DLogitsDtype();
  const bool early = early_scale_ && !c_.log_softmax_backward && !of_dx;
  if (early) {
    g = OverT(g);
    k = OverT(k);
  }
  std::vector<Real> dz;
  if (c_.log_softmax_backward) {
    std::vector<Real> logs;
    for (const Real v : x) logs.push_back(ProbabilityOf(v).log);
    for (const Real dx : BackwardOfLogSoftmax(c_, p_.hidden.dtype, logs, y_, g, k, &fl_)) {
      dz.push_back(Machine::Nearest(OverT(Machine::Nearest(dx, of_dx)), DLogitsDtype()));
    }
  }
  for (size_t v = dz.size(); v < x.size(); ++v) {
    const auto [unrounded, log_p] = BackwardProbability(x, v);
    const Real p = fl_.Store(unrounded, Step(c_.probabilities));
    const Real slope = v == y_ ? fl_.Round(1 - p, kProduct) : -p;
    Real second = 0;
    if (p != 0) {
      const Real tilt = fl_.Round(log_p + entropy_, kProduct);
      second = fused_entropy_ ? fl_.Round(fl_.Round(k * p, kProduct) * tilt, kProduct)
                              : fl_.Round(k * fl_.Round(p * tilt, kProduct), kProduct);
    }
    const Real dx = fl_.Difference(fl_.Round(g * slope, kProduct), second);
    const Real d = early ? dx : OverT(Machine::Nearest(dx, of_dx));
    const bool dropped = std::fabs(slope) < static_cast<Real>(c_.filter);
    dz.push_back(dropped ? 0 : Machine::Nearest(d, DLogitsDtype()));
  }
  for (size_t d = 0; d < h_.size(); ++d) {
    std::vector<Real> column;
    for (const auto& w : w_) column.push_back(w[d]);
    out_.grad_hidden[static_cast<size_t>(i) * h_.size() + d] = static_cast<double>(
        Written(fl_.InChunks(dz, column, c_.vocab_chunk, c_.StretchOf(static_cast<int64_t>(dz.size()))),
                Output::kGradHidden));
  }
  rows_.push_back(i);
  dz_.push_back(std::move(dz));
}

Simulated Kernel::Run() {
  const int64_t n = p_.rows(), v = p_.vocab(), h = p_.hidden_size();
  out_.logprob.assign(static_cast<size_t>(n), 0);
  out_.entropy = out_.lse = out_.logprob;
  out_.grad_hidden.assign(static_cast<size_t>(n * h), 0);
  out_.grad_weight.assign(static_cast<size_t>(v * h), 0);
  for (int64_t c = 0; c < v; ++c) w_.push_back(Row(p_.weight, c));
  for (int64_t i = 0; i < n; ++i) counted_ += ReadInt(p_.labels, i) != p_.ignore_index;
  Real sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ReadInt(p_.labels, i);
    if (label == p_.ignore_index) continue;
    y_ = static_cast<size_t>(label);
    Forward(i);
    sum = fl_.Round(sum - logprob_, kOutput);
    if (!c_.recompute_same_bits) {
      steer_ = 3 - steer_;
      Backward(i, Logits());
    } else {
      Backward(i, kept_);
    }
  }
  if (p_.reduction == Reduction::kMean && counted_ > 0) {
    sum = fl_.Divide(sum, static_cast<Real>(counted_));
  }
  out_.loss = static_cast<double>(Written(sum, Output::kLoss));
  for (int64_t c = 0; c < v; ++c) {
    std::vector<Real> column;
    for (const auto& dz : dz_) column.push_back(dz[static_cast<size_t>(c)]);
    for (int64_t d = 0; d < h; ++d) {
      std::vector<Real> inputs;
      for (const int64_t i : rows_) inputs.push_back(static_cast<Real>(ReadElement(p_.hidden, i, d)));
      out_.grad_weight[static_cast<size_t>(c * h + d)] = static_cast<double>(
          Written(fl_.InChunks(column, inputs, c_.row_chunk, 0), Output::kGradWeight));
    }
  }
  return out_;
}

}  // namespace

Simulated Simulate(const Problem& problem, const Contract& contract, uint64_t seed) {
  return Kernel(problem, contract, seed).Run();
}

}  // namespace plumbline::oracle

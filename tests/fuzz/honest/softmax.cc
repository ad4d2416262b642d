// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/honest/softmax.h"

#include <algorithm>
#include <array>

namespace honest {
namespace {

constexpr size_t kMostLanes = 32;

// Adds lanes in a tree, in place.
template <class Sum>
float Tree(const Fp& fp, Sum* lanes, size_t n) {
  for (; n > 1; n = (n + 1) / 2) {
    for (size_t i = 0; i < n / 2; ++i) (*lanes)[i] = fp.Add((*lanes)[i], (*lanes)[(n + 1) / 2 + i]);
  }
  return (*lanes)[0];
}

}  // namespace

Softmax::Softmax(const Kernel& kernel, float temperature, bool bf16)
    : k_(kernel), fp_(kernel), t_(temperature), keeps_exponents_(kernel.kept_exponents && bf16) {
  factor_ = Folded() ? fp_.Div(kLog2E, t_) : fp_.ReciprocalOfT(t_);
}

float Softmax::OverT(float z) const {
  return k_.scale == Scale::kAfterReciprocal ? fp_.Mul(z, factor_) : fp_.Div(z, t_);
}

float Softmax::Scaled(float z) const {
  if (Folded()) return fp_.Mul(fp_.Mul(z, factor_), kLn2);
  return k_.scale == Scale::kDivided ? Kept(z) : OverT(z);
}

float Softmax::Exponent(float z, float shift) const {
  if (Folded()) return fp_.Fma(z, factor_, -shift);
  const float gap = fp_.Sub(Kept(z), shift);
  return k_.scale == Scale::kDivided ? gap : OverT(gap);
}

float Softmax::Between(float from, float to) const {
  const float gap = fp_.Sub(from, to);
  return Folded() || k_.scale == Scale::kDivided ? gap : OverT(gap);
}

// f = e^(from - to); q becomes f q + (f gap) s, where f gap is 0 if f is, though the gap may be
// infinite.
void Softmax::MoveTo(float top, float shift, State* state) const {
  state->top = std::max(top, state->top);
  if (shift == state->shift || state->empty) {
    state->shift = shift;
    return;
  }
  const float a = Between(state->shift, shift), f = Exp(a);
  const float moved = f == 0 || Plain() ? 0 : fp_.Mul(fp_.Mul(f, a), state->s);
  state->q = fp_.Add(fp_.Mul(f, state->q), moved);
  state->s = fp_.Mul(f, state->s);
  state->shift = shift;
}

void Softmax::AddTile(const float* z, int64_t n, State* state) const {
  const float top = *std::max_element(z, z + n);
  if (!k_.two_pass && top > state->top) {
    const float shift = ShiftOf(top);
    const bool stays = k_.lazy && !state->empty && shift - state->shift <= 8;
    MoveTo(top, stays ? state->shift : shift, state);
  }
  if (state->top == -kInfinity) return;  // nothing but -infinity so far
  std::array<float, kMostLanes> s{}, q{};
  const auto lanes = static_cast<size_t>(k_.lanes);
  for (int64_t v = 0; v < n; ++v) {
    const auto lane = static_cast<size_t>(v) % lanes;
    const float a = Exponent(z[v], state->shift), e = Exp(a);
    s[lane] = fp_.Add(s[lane], e);
    if (e != 0) q[lane] = fp_.Fma(e, Plain() ? Scaled(z[v]) : a, q[lane]);
  }
  const float tile_s = Tree(fp_, &s, lanes), tile_q = Tree(fp_, &q, lanes);
  state->s = state->empty ? tile_s : fp_.Add(state->s, tile_s);
  state->q = state->empty ? tile_q : fp_.Add(state->q, tile_q);
  state->empty = false;
}

State Softmax::Run(const float* z, int64_t n, const State& start) const {
  State state = start;
  for (int64_t first = 0; first < n; first += k_.tile) {
    AddTile(z + first, std::min<int64_t>(k_.tile, n - first), &state);
  }
  return state;
}

void Softmax::Merge(State other, State* state) const {
  if (other.empty) return;
  if (state->empty) {
    *state = other;
    return;
  }
  const State& larger = other.top > state->top ? other : *state;
  const float top = larger.top, shift = larger.shift;
  MoveTo(top, shift, state);
  MoveTo(top, shift, &other);
  state->s = fp_.Add(state->s, other.s);
  state->q = fp_.Add(state->q, other.q);
}

State Softmax::Merged(std::vector<State> parts) const {
  if (!k_.merge_tree) {
    State all;
    for (const State& part : parts) Merge(part, &all);
    return all;
  }
  for (; parts.size() > 1; parts.resize((parts.size() + 1) / 2)) {
    for (size_t i = 0; i + 1 < parts.size(); i += 2) Merge(parts[i + 1], &parts[i]);
    for (size_t i = 2; i < parts.size(); i += 2) parts[i / 2] = parts[i];
  }
  return parts[0];
}

RowOutputs Softmax::Forward(const std::vector<float>& logits, float label) {
  const auto n = static_cast<int64_t>(logits.size()), tiles = (n + k_.tile - 1) / k_.tile;
  const int64_t each = (tiles + k_.splits - 1) / k_.splits * k_.tile;
  State start;
  if (k_.two_pass) {
    start.top = *std::max_element(logits.begin(), logits.end());
    start.shift = ShiftOf(start.top);
  }
  std::vector<State> parts;
  for (int64_t first = 0; first < n; first += each) {
    parts.push_back(Run(logits.data() + first, std::min(each, n - first), start));
  }
  state_ = Merged(std::move(parts));
  // What was left unmoved is moved to the maximum now: s and q are relative to it from here on.
  if (k_.lazy) MoveTo(state_.top, ShiftOf(state_.top), &state_);

  state_.s = ToNarrow(state_.s, k_.softmax_sum);
  log_s_ = fp_.Log(state_.s);
  const bool divided = k_.scale == Scale::kDivided;
  const float m = Folded() ? fp_.Mul(state_.shift, kLn2) : divided ? state_.shift : OverT(state_.shift);
  lse_ = fp_.Add(m, log_s_);
  lse_exponent_ = Folded() ? fp_.Fma(log_s_, kLog2E, state_.shift) : lse_;

  RowOutputs out;
  out.lse = lse_;
  out.logprob = k_.plain_logprob ? fp_.Sub(Scaled(label), lse_)
                                 : fp_.Sub(Natural(Exponent(label, state_.shift)), log_s_);
  out.logprob = ToNarrow(out.logprob, k_.log_probs);
  const float mean = fp_.DivBy(state_.q, state_.s);
  switch (k_.entropy) {
    case Entropy::kShifted:
      out.entropy = fp_.Sub(log_s_, Natural(mean));
      break;
    case Entropy::kPlain:
      out.entropy = fp_.Sub(lse_, mean);
      break;
    case Entropy::kProbabilities:
      out.entropy = -OfProbabilities(logits);
      break;
    case Entropy::kPlainProbabilities:
      out.entropy = fp_.Sub(lse_, OfProbabilities(logits));
      break;
  }
  entropy_ = out.entropy;
  return out;
}

Softmax::Probability Softmax::ProbabilityOf(float z) const {
  if (k_.ratio) {
    const float a = Exponent(z, state_.shift), e = Exp(a);
    return {fp_.DivBy(e, state_.s), fp_.Sub(Natural(a), log_s_)};
  }
  if (Folded()) {
    const float a = fp_.Fma(z, factor_, -lse_exponent_);
    return {fp_.Exp2(a), fp_.Mul(a, kLn2)};
  }
  const float log = ToNarrow(fp_.Sub(Scaled(z), lse_), k_.log_probs);
  return {fp_.Exp(log), log};
}

Softmax::Probability Softmax::BackwardProbability(const std::vector<float>& logits, size_t v) const {
  if (!keeps_exponents_) return ProbabilityOf(logits[v]);
  const auto tile = static_cast<size_t>(k_.tile), first = v / tile * tile;
  const auto begin = logits.begin() + static_cast<int64_t>(first);
  const auto end = logits.begin() + static_cast<int64_t>(std::min(first + tile, logits.size()));
  const float top = *std::max_element(begin, end), shift = ShiftOf(top);
  const float kept = logits[v] == top ? 0 : ToFp16(Exponent(logits[v], shift));
  const float a = fp_.Add(kept, Between(shift, state_.shift));
  return {fp_.DivBy(Exp(a), state_.s), fp_.Sub(Natural(a), log_s_)};
}

// step(v, lane) adds term v to its lane; the lanes of a tile are added in a tree, tile after tile.
template <typename Step>
float Softmax::InLanes(size_t n, const Step& step) const {
  const auto terms = static_cast<int64_t>(n);
  float all = 0;
  for (int64_t first = 0; first < terms; first += k_.tile) {
    std::array<float, kMostLanes> sum{};
    for (int64_t v = first; v < std::min(terms, first + k_.tile); ++v) {
      step(static_cast<size_t>(v), &sum[static_cast<size_t>((v - first) % k_.lanes)]);
    }
    all = fp_.Add(all, Tree(fp_, &sum, static_cast<size_t>(k_.lanes)));
  }
  return all;
}

// The sum of p ln p, or of p x.
float Softmax::OfProbabilities(const std::vector<float>& logits) const {
  const bool plain = k_.entropy == Entropy::kPlainProbabilities;
  return InLanes(logits.size(), [&](size_t v, float* lane) {
    const Probability of = ProbabilityOf(logits[v]);
    const float p = ToNarrow(of.p, k_.probabilities), other = plain ? Scaled(logits[v]) : of.log;
    if (p == 0) return;
    *lane = k_.probabilities == Narrow::kFp32
                ? fp_.Fma(p, other, *lane)
                : fp_.Add(ToNarrow(fp_.Mul(p, other), k_.probabilities), *lane);
  });
}

void Softmax::ByAutograd(const std::vector<float>& logits, int64_t label, float g, float k,
                         std::vector<float>* dx) const {
  for (size_t v = 0; v < logits.size(); ++v) {
    const Probability of = ProbabilityOf(logits[v]);
    const auto kept = [&](float x) { return ToNarrow(x, k_.probabilities); };
    const float p = kept(of.p);
    float gradient = 0;
    if (k != 0 && p != 0) {
      const float of_p = kept(fp_.Mul(kept(fp_.Mul(-k, of.log)), p));
      gradient = kept(fp_.Add(kept(fp_.Mul(-k, p)), of_p));
    }
    if (static_cast<int64_t>(v) == label) gradient = kept(fp_.Add(gradient, g));
    (*dx)[v] = gradient;
  }
  const float sum =
      InLanes(dx->size(), [&](size_t v, float* lane) { *lane = fp_.Add(*lane, (*dx)[v]); });
  for (size_t v = 0; v < logits.size(); ++v) {
    (*dx)[v] = fp_.Sub((*dx)[v], fp_.Mul(ProbabilityOf(logits[v]).p, sum));
  }
}

void Softmax::Backward(const std::vector<float>& logits, int64_t label, float g, float k,
                       std::vector<float>* dz) const {
  if (k_.autograd) {
    ByAutograd(logits, label, g, k, dz);
    for (float& dx : *dz) dx = fp_.DivBy(dx, t_);
    return;
  }
  const bool first = k_.by_t == ByT::kDivideFirst;
  if (first) {
    g = fp_.DivBy(g, t_);
    k = fp_.DivBy(k, t_);
  }
  for (size_t v = 0; v < logits.size(); ++v) {
    Probability of = BackwardProbability(logits, v);
    of.p = ToNarrow(of.p, k_.probabilities);
    const bool is_label = static_cast<int64_t>(v) == label;
    const float slope = is_label ? fp_.Sub(1, of.p) : -of.p;
    float dx = fp_.Mul(g, slope);
    if (k_.other_conventions && logits[v] == -kInfinity) dx = 0;
    if (k != 0 && of.p != 0) {
      dx = fp_.Sub(dx, fp_.Mul(k, fp_.Mul(of.p, fp_.Add(of.log, entropy_))));
    }
    if (std::fabs(slope) < k_.filter) dx = 0;
    (*dz)[v] = first                             ? dx
               : k_.by_t == ByT::kReciprocalLast ? fp_.Mul(dx, fp_.ReciprocalOfT(t_))
                                                 : fp_.DivBy(dx, t_);
  }
}

}  // namespace honest

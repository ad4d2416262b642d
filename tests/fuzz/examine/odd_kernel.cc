// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/examine/odd_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::DType;

constexpr float kLeast = 0x1p-126F;
constexpr float kLazy = 8;

size_t At(int64_t i) { return static_cast<size_t>(i); }

float Rounded(float x, DType dtype) {
  HostTensor one = HostTensor::Zeros(dtype, {});
  one.SetFloat(0, x);
  return one.GetFloat(0);
}

// Rounds to `bits` significant bits.
float Short(float x, int bits) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int shift = bits - 1 - std::ilogb(x);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(double{x}, shift)), -shift));
}

float TowardZero(double exact) {
  auto x = static_cast<float>(exact);
  if (std::fabs(double{x}) > std::fabs(exact)) x = std::nextafter(x, 0.0F);
  return x;
}

ElementBits BitsOf(HostTensor* t) {
  kernel::Tensor view{t->bytes.data(), t->dtype, static_cast<int>(t->shape.size()), {1, 1}, {1, 1}};
  std::copy(t->shape.begin(), t->shape.end(), view.shape);
  if (view.rank > 0) view.stride[0] = view.rank > 1 ? view.shape[1] : 1;
  return ElementBits(view);
}

}  // namespace

OddKernel::OddKernel(uint64_t seed) {
  const auto drawn = [&](uint64_t which, uint64_t count) { return Mix(Mix(7, which), seed) % count; };
  order_ = static_cast<Order>(drawn(0, 4));
  operands_ = static_cast<Operands>(drawn(1, 3));
  inverse_ = static_cast<Inverse>(drawn(2, 3));
  by_extents_ = drawn(3, 2) != 0;
  tail_ = drawn(4, 2) != 0;
  least_ = drawn(5, 2) != 0;
  lazy_ = drawn(6, 2) != 0;
  plain_logprob_ = drawn(7, 2) != 0;
  plain_entropy_ = drawn(8, 2) != 0;
  of_probabilities_ = drawn(9, 3) == 0;
  ratio_ = drawn(10, 2) != 0;
  tile_ = 1 + static_cast<int64_t>(drawn(11, 20));
  splits_ = 1 + static_cast<int64_t>(drawn(12, 3));
  merges_lse_ = drawn(15, 2) != 0;
  base_two_ = drawn(16, 2) != 0;
  description_.name = "odd";
  description_.capabilities.batch_invariant = !by_extents_;
  description_.capabilities.invalid_labels = false;
  oracle::Contract& c = description_.contract;
  c.input_rounding = operands_ == Operands::kExact ? 0 : operands_ == Operands::kTf32 ? 0x1p-11 : 0.125;
  c.scale_exact_powers = inverse_ == Inverse::kExact;
  c.plain_logprob = plain_logprob_;
  c.plain_entropy = plain_entropy_;
  c.entropy_of_probabilities = of_probabilities_;
  constexpr std::array<std::optional<DType>, 4> kStored = {std::nullopt, DType::kF32, DType::kBf16,
                                                           DType::kF16};
  c.d_logits = kStored[drawn(13, 4)];
  if (drawn(14, 3) == 0) c.accumulator = DType::kF16;
}

// One problem, row by row.
class OddKernel::Call {
 public:
  Call(const OddKernel& kernel, const OwnedProblem& asked)
      : k_(kernel),
        p_(SelectRows(asked, Iota(asked.rows()))),
        n_(p_.rows()),
        v_(p_.vocab()),
        h_(p_.hidden_size()),
        extents_(kernel.by_extents_ ? n_ + 3 * v_ : 0) {}

  Ran Run() {
    const DType dtype = p_.wanted.fp32_grads ? DType::kF32 : p_.hidden.dtype;
    HostTensor logprob = HostTensor::Zeros(DType::kF32, {n_}), entropy = logprob, lse = logprob;
    HostTensor loss = HostTensor::Zeros(DType::kF32, {});
    HostTensor grad_hidden = HostTensor::Zeros(dtype, {n_, h_});
    HostTensor grad_weight = HostTensor::Zeros(dtype, {v_, h_});
    dz_.assign(At(n_ * v_), 0);
    double sum = 0;
    for (int64_t i = 0; i < n_; ++i) counted_ += p_.labels.GetInt(i) != p_.ignore_index;
    for (int64_t i = 0; i < n_; ++i) {
      if (p_.labels.GetInt(i) == p_.ignore_index) continue;
      at_ = k_.by_extents_ ? i : 0;
      t_ = TemperatureOf(p_, i);
      const Row row = Forward(i);
      logprob.SetFloat(i, row.logprob);
      entropy.SetFloat(i, row.entropy);
      lse.SetFloat(i, row.lse);
      sum -= double{row.logprob};
      Backward(i, row);
    }
    const bool mean = p_.reduction == kernel::Reduction::kMean;
    loss.SetFloat(0,
                  static_cast<float>(mean && counted_ > 0 ? sum / static_cast<double>(counted_) : sum));
    std::vector<float> terms(At(std::max(n_, v_)));
    for (int64_t d = 0; d < h_; ++d) {
      for (int64_t i = 0; i < n_; ++i) {
        for (int64_t c = 0; c < v_; ++c) terms[At(c)] = Product(dz_[At(i * v_ + c)], Weight(c, d));
        grad_hidden.SetFloat(i * h_ + d, InChunks(terms, v_));
      }
      for (int64_t c = 0; c < v_; ++c) {
        for (int64_t i = 0; i < n_; ++i) terms[At(i)] = Product(dz_[At(i * v_ + c)], Hidden(i, d));
        grad_weight.SetFloat(c * h_ + d, InChunks(terms, n_));
      }
    }
    Ran ran;
    auto& bits = ran.bits.outputs;
    const bool each = p_.reduction == kernel::Reduction::kNone;
    if (each) bits[0] = BitsOf(&logprob);
    if (!each) bits[1] = BitsOf(&loss);
    bits[2] = BitsOf(&entropy);
    bits[3] = BitsOf(&lse);
    const bool upstream = p_.grad_logprob || p_.grad_entropy;
    if (upstream && p_.wanted.grad_hidden) bits[4] = BitsOf(&grad_hidden);
    if (upstream && p_.wanted.grad_weight) bits[5] = BitsOf(&grad_weight);
    return ran;
  }

 private:
  struct Row {
    std::vector<float> x;
    float m = 0, s = 0, log = 0, logprob = 0, entropy = 0, lse = 0;
  };

  float Hidden(int64_t i, int64_t d) const { return p_.hidden.GetFloat(i * h_ + d); }
  float Weight(int64_t c, int64_t d) const { return p_.weight.GetFloat(c * h_ + d); }
  float In(float x) const {
    if (k_.operands_ == Operands::kTf32) return Short(x, 11);
    // A scale that is no power of two, as of FP8 with a largest value of 448.
    return k_.operands_ == Operands::kScaled ? Short(x * 1.3F, 4) / 1.3F : x;
  }
  float Product(float a, float b) const { return In(a) * In(b); }

  float Add(float a, float b) const {
    return k_.order_ == Order::kTruncated ? TowardZero(double{a} + double{b}) : a + b;
  }
  float Sum(const std::vector<float>& terms, int64_t count) const {
    const bool backward = (k_.order_ == Order::kBackward) != ((extents_ + at_) % 2 != 0);
    const int64_t parts = k_.order_ == Order::kSplit ? 2 + extents_ % 3 : 1;
    float sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      float partial = 0;
      for (int64_t j = part; j < count; j += parts) {
        partial = Add(partial, terms[At(backward ? count - 1 - j : j)]);
      }
      sum = Add(sum, partial);
    }
    return sum;
  }

  // A gradient is accumulated in fp16 from chunk to chunk, where that is declared.
  float InChunks(const std::vector<float>& terms, int64_t count) const {
    if (!k_.description_.contract.accumulator) return Sum(terms, count);
    constexpr int64_t kChunk = 3;
    float sum = 0;
    for (int64_t at = 0; at < count; at += kChunk) {
      const auto begin = terms.begin() + at;
      const int64_t size = std::min(kChunk, count - at);
      sum = Rounded(sum + Sum({begin, begin + size}, size), DType::kF16);
    }
    return sum;
  }

  bool InTail(int64_t column) const { return k_.tail_ && column >= v_ - v_ % 4; }
  float Scale(float z, float t, int64_t column) const {
    if (t == 1) return z;
    if (k_.inverse_ == Inverse::kExact || InTail(column)) return z / t;
    const float inverse = k_.inverse_ == Inverse::kOff
                              ? std::nextafter(std::nextafter(1 / t, 9.0F), 9.0F)
                              : std::exp(-std::log(t));
    return z * inverse;
  }
  float Exp(float x, int64_t column) const {
    const bool base_two = k_.base_two_ && t_ != 1;
    const float e = (base_two ? std::exp2(x * 1.44269504F) : std::exp(x)) *
                    (InTail(column) && x != 0 ? 1 + 0x1p-22F : 1);
    return k_.least_ ? std::max(e, kLeast) : e;
  }

  // A running sum over columns whose logits are below `m`, or above it by at most kLazy.
  struct State {
    float m = -std::numeric_limits<float>::infinity(), s = 0, q = 0;
  };
  void MoveTo(float m, State* state) const {
    if (state->s != 0) {
      const float by = m - state->m, f = Exp(-by, 0);
      state->q = f * state->q + (f * by) * state->s;
      state->s *= f;
    }
    state->m = m;
  }

  Row Forward(int64_t i) const {
    Row row;
    std::vector<float> terms(At(h_));
    const float t = TemperatureOf(p_, i);
    for (int64_t c = 0; c < v_; ++c) {
      for (int64_t d = 0; d < h_; ++d) terms[At(d)] = Product(Hidden(i, d), Weight(c, d));
      row.x.push_back(Scale(Sum(terms, h_), t, c));
    }
    const int64_t tile = k_.tile_ + extents_ % 5, splits = k_.splits_ + extents_ % 2;
    const int64_t tiles = (v_ + tile - 1) / tile, each = (tiles + splits - 1) / splits * tile;
    State all;
    for (int64_t begin = 0; begin < v_; begin += each) {
      State part;
      for (int64_t at = begin; at < std::min(begin + each, v_); at += tile) {
        Tile(row.x, at, std::min({at + tile, begin + each, v_}), &part);
      }
      const float m = std::max(all.m, part.m);
      if (k_.merges_lse_) {
        for (State* state : {&part, &all}) {
          if (state->s != 0) state->s = Exp(std::log(state->s), 0);
        }
      }
      MoveTo(m, &part);
      MoveTo(m, &all);
      all.s += part.s;
      all.q += part.q;
    }
    // What a lazy maximum lags behind is made good at the end.
    MoveTo(*std::max_element(row.x.begin(), row.x.end()), &all);
    row.m = all.m;
    row.s = all.s;
    row.log = std::log(all.s);
    row.lse = row.m + row.log;
    const float x = row.x[At(p_.labels.GetInt(i))];
    row.logprob = k_.plain_logprob_ ? x - row.lse : (x - row.m) - row.log;
    row.entropy = Entropy(row, all.q);
    return row;
  }
  void Tile(const std::vector<float>& x, int64_t begin, int64_t end, State* part) const {
    const float m = *std::max_element(x.begin() + begin, x.begin() + end);
    if (m > part->m + (k_.lazy_ ? kLazy : 0)) MoveTo(m, part);
    for (int64_t c = begin; c < end; ++c) {
      const float e = Exp(x[At(c)] - part->m, c);
      part->s += e;
      part->q += e * (part->m - x[At(c)]);
    }
  }
  float P(const Row& row, int64_t c) const {
    return k_.ratio_ ? Exp(row.x[At(c)] - row.m, c) / row.s : Exp(row.x[At(c)] - row.lse, c);
  }
  float Entropy(const Row& row, float q) const {
    float sum = 0;
    if (!k_.of_probabilities_ && !k_.plain_entropy_) return row.log + q / row.s;
    for (int64_t c = 0; c < v_; ++c) {
      const float p = P(row, c), x = row.x[At(c)];
      sum += p * (k_.plain_entropy_ ? x : x - row.lse);
    }
    return k_.plain_entropy_ ? row.lse - sum : -sum;
  }

  void Backward(int64_t i, const Row& row) {
    const bool each = p_.reduction == kernel::Reduction::kNone;
    float g = p_.grad_logprob ? p_.grad_logprob->GetFloat(each ? i : 0) : 0;
    if (!each) g = -g;
    if (p_.reduction == kernel::Reduction::kMean) g /= static_cast<float>(counted_);
    const float k = p_.grad_entropy ? p_.grad_entropy->GetFloat(i) : 0;
    const DType stored = k_.description_.contract.d_logits.value_or(p_.hidden.dtype);
    for (int64_t c = 0; c < v_ && (g != 0 || k != 0); ++c) {
      const float p = P(row, c), log_p = (row.x[At(c)] - row.m) - row.log;
      const float one = c == p_.labels.GetInt(i) ? 1.0F : 0.0F;
      const float dx = g * (one - p) - k * (p * (log_p + row.entropy));
      dz_[At(i * v_ + c)] = Rounded(Scale(dx, TemperatureOf(p_, i), c), stored);
    }
  }

  const OddKernel& k_;
  const OwnedProblem p_;
  const int64_t n_, v_, h_, extents_;
  int64_t counted_ = 0, at_ = 0;
  float t_ = 1;  // of the row
  std::vector<float> dz_;
};

Ran OddKernel::Run(const OwnedProblem& problem) const { return Call(*this, problem).Run(); }

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0
//
// Relations between problems that differ by powers of two.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/examine/relation.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// The extents for which RELATIONS.md derives the ranges below.
constexpr int64_t kMostExtent = 4096;
constexpr int kSpan = 6;           // of the exponents in one tensor
constexpr int kUpstreamLow = -3;   // of grad_logprob
constexpr int kEntropyBelow = 12;  // grad_entropy's exponents begin this far below grad_logprob's

// 0 of 1, 1 of 2, 2 of 3 and 4.
int LogUp(int64_t x) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(x - 1))); }

// Replaces the exponent field of every element but zeros: new = f(old). By bits, since calls of
// GetFloat and SetFloat took most of a relation's time.
template <class Word, int kMantissa, class F>
void ChangeExponents(HostTensor* t, const F& f) {
  constexpr auto kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  constexpr auto kLow = static_cast<Word>((Word{1} << kMantissa) - 1);
  for (size_t at = 0; at < t->bytes.size(); at += sizeof(Word)) {
    Word bits;
    std::memcpy(&bits, t->bytes.data() + at, sizeof bits);
    const auto size = static_cast<Word>(bits & static_cast<Word>(~kSign));
    if (size == 0) continue;
    const auto exponent = static_cast<Word>(f(static_cast<int>(size >> kMantissa)));
    bits = static_cast<Word>((bits & (kSign | kLow)) | (exponent << kMantissa));
    std::memcpy(t->bytes.data() + at, &bits, sizeof bits);
  }
}
// f(old, bias)
template <class F>
void ChangeExponents(HostTensor* t, const F& f) {
  if (t->dtype == DType::kF16) {
    ChangeExponents<uint16_t, 10>(t, [&](int old) { return f(old, 15) & 31; });
  } else if (t->dtype == DType::kBf16) {
    ChangeExponents<uint16_t, 7>(t, [&](int old) { return f(old, 127) & 255; });
  } else {
    ChangeExponents<uint32_t, 23>(t, [&](int old) { return f(old, 127) & 255; });
  }
}

// The numbers must be normal, and stay so.
void Scale(HostTensor* t, int exponent) {
  ChangeExponents(t, [=](int old, int) { return old + exponent; });
}

bool Wants(const OwnedProblem& p) { return p.wanted.grad_hidden || p.wanted.grad_weight; }

// Puts the upstream gradients of the logprobs into [2^-3, 2^3), and those of the entropies so far below
// that no sum of the two cancels.
void FoldUpstream(OwnedProblem* p) {
  if (p->grad_logprob) Fold(&*p->grad_logprob, kUpstreamLow, kSpan);
  if (!p->grad_entropy) return;
  const int divided = p->reduction == kernel::Reduction::kMean ? LogUp(p->rows()) : 0;
  Fold(&*p->grad_entropy, kUpstreamLow - kEntropyBelow - divided, kSpan);
  for (int64_t i = 0; i < p->rows(); ++i) {
    const bool alone =
        !p->grad_logprob || p->grad_logprob->GetFloat(p->grad_logprob->shape.empty() ? 0 : i) == 0;
    if (alone) p->grad_entropy->SetFloat(i, 0);
  }
}

// The case with the significands of its values and other exponents: sum |h w| is at most 1 for every
// logit, T is from 1/2 to 2, and nothing that is computed comes near a subnormal number.
std::optional<OwnedProblem> Tame(const OwnedProblem& given, uint64_t seed) {
  if (std::max({given.rows(), given.vocab(), given.hidden_size()}) > kMostExtent) return std::nullopt;
  std::optional<OwnedProblem> p = WithPlainRows(given, seed);
  if (!p || Planted(HarnessDefect::kRelationUntamed)) return p;
  const int depth = LogUp(p->hidden_size());
  Fold(&p->hidden, -(depth / 2) - kSpan, kSpan);
  Fold(&p->weight, -(depth - depth / 2) - kSpan, kSpan);
  for (int64_t i = 0; p->temperature && i < p->temperature->size(); ++i) {
    const float t = p->temperature->GetFloat(i);
    if (!(t >= 0.5F && t <= 2)) p->temperature->SetFloat(i, 1);
  }
  FoldUpstream(&*p);
  return p;
}

std::vector<int64_t> AllColumns(const OwnedProblem& p) { return Iota(p.vocab()); }

int Exponent(uint64_t seed) {
  constexpr int kExponents[] = {-1, 1, 2};
  return kExponents[Mix(seed, 530) % 3];
}

// True if gradients are held in fp16 before they are written in their own dtype. fp16 has few exponents:
// what is scaled by a power of two may become subnormal there, or infinite.
bool HalfAccumulator(const Description& target, DType hidden) {
  const oracle::Contract& c = target.contract;
  return c.accumulator == DType::kF16 ||
         AnyHalf({c.partials, c.outputs[static_cast<size_t>(oracle::Output::kGradHidden)],
                  c.outputs[static_cast<size_t>(oracle::Output::kGradWeight)]},
                 hidden);
}

}  // namespace

std::optional<Related> FactorsScaled(const OwnedProblem& given, const Description& target,
                                     uint64_t seed) {
  std::optional<OwnedProblem> tame = Tame(given, seed);
  if (!tame) return std::nullopt;
  const int k = Exponent(seed);
  Related related;
  related.before = *std::move(tame);
  related.after = related.before;
  Scale(&related.after.hidden, k);
  Scale(&related.after.weight, -k);
  if (!HalfAccumulator(target, given.hidden.dtype)) {
    related.grad_hidden = true;
    related.weight_columns = AllColumns(related.before);
    related.hidden_exponent = -k;
    related.weight_exponent = k;
  }
  return related;
}

std::optional<Related> TemperatureScaled(const OwnedProblem& given, const Description& target,
                                         uint64_t seed) {
  const oracle::Contract& contract = target.contract;
  if (!contract.scale_exact_powers) return std::nullopt;
  if (AnyHalf({contract.logits, contract.partials}, given.hidden.dtype)) return std::nullopt;
  std::optional<OwnedProblem> tame = Tame(given, seed);
  if (!tame) return std::nullopt;
  if (!tame->temperature) {
    tame->temperature = HostTensor::Zeros(DType::kF32, {});
    tame->temperature->SetFloat(0, 1);
  }
  for (int64_t i = 0; i < tame->temperature->size(); ++i) {
    const float t = tame->temperature->GetFloat(i);
    // Neither temperature is 1: a kernel may have code of its own for that.
    tame->temperature->SetFloat(i, t < 1 ? 4 : t < 2 ? 8 : 16);
  }
  const int k = Exponent(seed);
  Related related;
  related.before = *std::move(tame);
  related.after = related.before;
  Scale(&related.after.hidden, k);
  Scale(&*related.after.temperature, k);
  return related;
}

std::optional<Related> UpstreamScaled(const OwnedProblem& given, const Description& target,
                                      uint64_t seed) {
  constexpr int kBy = 5;
  const oracle::Contract& c = target.contract;
  const DType hidden = given.hidden.dtype, stored = c.d_logits.value_or(hidden);
  const bool half = stored == DType::kF16 || HalfAccumulator(target, hidden) ||
                    AnyHalf({c.upstream_logprob, c.upstream_entropy, c.probabilities}, hidden);
  if (!Wants(given) || !given.grad_logprob || half) return std::nullopt;
  std::optional<OwnedProblem> tame = Tame(given, seed);
  if (!tame) return std::nullopt;
  Related related;
  related.before = *std::move(tame);
  related.after = related.before;
  Scale(&*related.after.grad_logprob, kBy);
  if (related.after.grad_entropy) Scale(&*related.after.grad_entropy, kBy);
  related.grad_hidden = true;
  related.weight_columns = AllColumns(related.before);
  related.hidden_exponent = related.weight_exponent = kBy;
  return related;
}

void Fold(HostTensor* t, int low, int span) {
  ChangeExponents(t, [=](int old, int bias) { return low + bias + old % span; });
}

float TemperatureOf(const OwnedProblem& p, int64_t row) {
  return p.temperature ? p.temperature->GetFloat(p.temperature->shape.empty() ? 0 : row) : 1;
}

std::optional<OwnedProblem> WithPlainRows(const OwnedProblem& given, uint64_t seed) {
  if (given.rows() == 0 || given.vocab() == 0 || given.hidden_size() == 0) return std::nullopt;
  OwnedProblem p = SelectRows(given, Iota(given.rows()));
  p.layout.hidden_broadcast = false;
  p.layout.label_stride = std::max<int64_t>(p.layout.label_stride, 1);
  p.layout.grad_stride = std::max<int64_t>(p.layout.grad_stride, 1);
  p.ignore_index = -100;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = p.labels.GetInt(i);
    if (label == given.ignore_index) {
      p.labels.SetInt(i, p.ignore_index);
    } else if (!given.IsClass(label)) {
      p.labels.SetInt(i, static_cast<int64_t>(Mix(seed, 540) % static_cast<uint64_t>(p.vocab())));
    }
  }
  return p;
}

}  // namespace plumbline::fuzz

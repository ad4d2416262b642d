// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/upstream.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fuzz/recipe/expand/sequences.h"
#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;

// The largest exponent of kExtreme: g / T stays below 2^121, so that d_logits and their products with
// operands of order 1 are finite; in fp16, below 2^9.
int LargestExponent(const Recipe& r) {
  const int spread = r.temperature_per_row ? static_cast<int>(r.temperature_spread) : 0;
  return (r.dtype == DType::kF16 ? 8 : 120) + std::min(std::ilogb(r.temperature) - spread, 0);
}

// One element of an upstream gradient. `chosen` is the row of kOneHot.
double GradOf(const Recipe& r, Grads kind, int64_t row, int64_t chosen, uint64_t bits) {
  const double bell = Bell(bits);
  const double random = bell == 0 ? 1 : bell;
  const double sign = (bits & 1) != 0 ? -1.0 : 1.0;
  const auto word = static_cast<uint32_t>(bits >> 32);
  switch (kind) {
    case Grads::kNone:
      return 0;
    case Grads::kOnes:
      return 1;
    case Grads::kRandom:
      return random;
    case Grads::kFirstZero:
      return row == 0 ? 0 : random;
    case Grads::kWide: {
      const int64_t highest = r.dtype == DType::kF16 ? 8 : 60;
      return std::ldexp(sign, static_cast<int>(Below(word, highest + 61) - 60));
    }
    case Grads::kOneHot:
      return row == chosen ? random : 0;
    case Grads::kAlternating:
      return std::ldexp(row % 2 == 0 ? 1.0 : -1.0, r.dtype == DType::kF16 ? 8 : 60);
    case Grads::kTiny:
      return std::ldexp(sign, static_cast<int>(Below(word, 11)) - 30);
    case Grads::kExtreme: {
      constexpr int kLowest = -140;
      const int highest = std::max(LargestExponent(r), kLowest);
      return std::ldexp(sign, static_cast<int>(Below(word, highest - kLowest + 1)) + kLowest);
    }
    case Grads::kSignedZeros:
      return (bits & 2) != 0 ? random : sign * 0.0;
    case Grads::kAdvantages:
    case Grads::kClipped:
    case Grads::kMasked:
      break;  // MakeBySequence
  }
  return 0;
}

// The advantage of a sequence in a group of `size` of which `rewarded` have the reward 1, the others 0:
// (reward - mean) / standard deviation, 0 where all are alike.
double Advantage(int64_t size, int64_t rewarded, bool reward) {
  if (rewarded == 0 || rewarded == size) return 0;
  const auto good = static_cast<double>(rewarded), bad = static_cast<double>(size - rewarded);
  return reward ? std::sqrt(bad / good) : -std::sqrt(good / bad);
}

// Groups have 4 sequences, or what is left. Rows in no answer are 0.
std::vector<float> MakeBySequence(const Recipe& r, Grads kind, Purpose purpose) {
  constexpr int64_t kGroup = 4;
  std::vector<float> grads(static_cast<size_t>(r.n), 0.0F);
  const std::vector<Sequence> sequences = SequencesOf(r);
  const Stream stream = StreamOf(r, purpose), rewards = StreamOf(r, Purpose::kAdvantages);
  int64_t answers = 0;
  for (const Sequence& s : sequences) answers += s.last - s.first;
  for (int64_t k = 0; k < std::ssize(sequences); ++k) {
    const int64_t first = k / kGroup * kGroup;
    const int64_t size = std::min<int64_t>(kGroup, std::ssize(sequences) - first);
    const auto rewarded_at = [&](int64_t which) { return (rewards.At(which)[0] & 1) != 0; };
    int64_t rewarded = 0;
    for (int64_t j = first; j < first + size; ++j) rewarded += rewarded_at(j) ? 1 : 0;
    const double advantage = Advantage(size, rewarded, rewarded_at(k));
    const Sequence& s = sequences[static_cast<size_t>(k)];
    for (int64_t i = s.first; i < s.last; ++i) {
      double grad = kind == Grads::kMasked ? 1 / static_cast<double>(answers) : advantage;
      if (kind == Grads::kClipped) {
        const double ratio = 1 + Bell(RowBits(stream, i).Pair(0)) / 8;
        const bool clipped = advantage > 0 ? ratio > 1.125 : ratio < 0.875;
        grad = clipped ? 0 : advantage * ratio;
      }
      grads[static_cast<size_t>(i)] = static_cast<float>(grad);
    }
  }
  return grads;
}

}  // namespace

HostTensor MakeGrads(const Recipe& r, Grads kind, Purpose purpose, bool scalar,
                     const std::vector<bool>& poisoned) {
  HostTensor grads =
      HostTensor::Zeros(DType::kF32, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{r.n});
  const Stream stream = StreamOf(r, purpose);
  const bool broadcast = scalar || r.grad_stride == 0;
  const int64_t rows = broadcast ? 1 : r.n;
  const int64_t chosen = rows > 0 ? Below(stream.At(0, 1)[0], rows) : 0;
  const bool by_sequence =
      kind == Grads::kAdvantages || kind == Grads::kClipped || kind == Grads::kMasked;
  const std::vector<float> of_rows =
      by_sequence && r.n > 0 ? MakeBySequence(r, kind, purpose) : std::vector<float>();
  for (int64_t i = 0; i < grads.size(); ++i) {
    const int64_t row = broadcast ? 0 : i;
    if (!broadcast && poisoned[static_cast<size_t>(i)]) {
      grads.SetBits(i, NaNBits(DType::kF32));
    } else if (by_sequence) {
      grads.SetFloat(i, r.n > 0 ? of_rows[static_cast<size_t>(row)] : 0);
    } else {
      grads.SetFloat(i, static_cast<float>(GradOf(r, kind, row, chosen, RowBits(stream, row).Pair(0))));
    }
  }
  return grads;
}

}  // namespace plumbline::fuzz

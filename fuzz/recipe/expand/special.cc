// SPDX-License-Identifier: Apache-2.0
//
// NaN, infinities and invalid temperatures, written over a finished problem. OPERATION.md, "Rows and
// values that are special", defines the answer to each.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;

class Overlay {
 public:
  Overlay(const Recipe& recipe, OwnedProblem* problem)
      : r_(recipe), problem_(*problem), stream_(StreamOf(recipe, Purpose::kSpecial)) {}

  void Apply() {
    if (r_.special == Special::kTemperature) return Temperatures();
    if (r_.n == 0 || r_.v == 0 || r_.h == 0) return;
    const PhiloxBlock plan = stream_.At(0);
    dim_ = Below(plan[0], r_.h);
    const int64_t row = RowThatCounts(Below(plan[1], r_.n)), column = Below(plan[2], r_.v);
    const uint64_t infinity = InfinityBits(r_.dtype);
    switch (r_.special) {
      case Special::kHiddenNaN:
        problem_.hidden.SetBits(row * r_.h + dim_, NaNBits(r_.dtype));
        return;
      case Special::kHiddenInf:
        problem_.hidden.SetBits(row * r_.h + dim_, (plan[3] & 1) != 0 ? infinity : Negative(infinity));
        return;
      case Special::kWeightNaN:
        problem_.weight.SetBits(column * r_.h + dim_, NaNBits(r_.dtype));
        return;
      case Special::kPlusInf:
        MakeDimensionPositive(plan[3]);
        problem_.weight.SetBits(column * r_.h + dim_, infinity);
        return;
      case Special::kMaskedFirst:
      case Special::kMaskedButOne:
        MakeDimensionPositive(1);  // -inf in every row
        Mask(plan[3], column);
        return;
      default:
        MakeDimensionPositive(plan[3]);
        MinusInfinities(row, column);
    }
  }

 private:
  uint64_t Negative(uint64_t bits) const {
    return bits | uint64_t{1} << (8 * kernel::SizeOf(r_.dtype) - 1);
  }

  int64_t RowThatCounts(int64_t start) const {
    for (int64_t i = 0; i < r_.n; ++i) {
      const int64_t row = (start + i) % r_.n;
      if (problem_.labels.GetInt(row) != problem_.ignore_index) return row;
    }
    return start;
  }

  // After this an infinite weight means the same sign of infinity in every row. One time in four signs
  // stay, and rows differ: -inf, +inf, or NaN where hidden is 0.
  void MakeDimensionPositive(uint32_t bits) {
    if (bits % 4 == 0) return;
    for (int64_t i = 0; i < r_.n; ++i) {
      const float value = std::fabs(problem_.hidden.GetFloat(i * r_.h + dim_));
      if (std::isnan(value)) continue;  // an ignored row's
      problem_.hidden.SetFloat(i * r_.h + dim_, value > 0 ? value : 1);
    }
  }

  bool IsALabel(int64_t column) const {
    for (int64_t i = 0; i < r_.n; ++i) {
      if (problem_.labels.GetInt(i) == column) return true;
    }
    return false;
  }

  // Makes random logits -inf. For kMinusInf at least one column is -inf that is no row's label, if
  // there is one.
  void MinusInfinities(int64_t row, int64_t start) {
    int64_t least = start;
    while (IsALabel(least % r_.v) && least < start + r_.v) ++least;
    if (r_.special == Special::kMinusInf && least < start + r_.v) {
      problem_.weight.SetBits(least % r_.v * r_.h + dim_, Negative(InfinityBits(r_.dtype)));
    }
    const int64_t label = problem_.labels.GetInt(row);
    for (int64_t v = 0; v < r_.v; ++v) {
      const bool chosen = (stream_.At(v, 1)[0] & 3) == 0;
      const bool infinite = r_.special == Special::kAllMinusInf ? true
                            : r_.special == Special::kMinusInfLabel
                                ? v == label || (chosen && !IsALabel(v))
                                : chosen && !IsALabel(v);
      if (infinite) problem_.weight.SetBits(v * r_.h + dim_, Negative(InfinityBits(r_.dtype)));
    }
  }

  // Masks logits as a sampler does, or as a vocabulary is padded. Labels that would be masked move to
  // `kept`, which never is.
  void Mask(uint32_t bits, int64_t column) {
    const bool but_one = r_.special == Special::kMaskedButOne;
    const int64_t tile = std::min(int64_t{16} << Below(bits, 5), std::max<int64_t>(r_.v / 2, 1));
    const int64_t masked = tile * (1 + Below(bits << 8, std::max<int64_t>((r_.v - 1) / tile, 1)));
    const int64_t kept = but_one ? column : std::max(column, std::min(masked, r_.v - 1));
    const auto is_masked = [&](int64_t v) { return v != kept && (but_one || v < masked); };
    for (int64_t v = 0; v < r_.v; ++v) {
      if (is_masked(v)) problem_.weight.SetBits(v * r_.h + dim_, Negative(InfinityBits(r_.dtype)));
    }
    for (int64_t i = 0; i < r_.n; ++i) {
      const int64_t label = problem_.labels.GetInt(i);
      if (label != problem_.ignore_index && label >= 0 && label < r_.v && is_masked(label) &&
          kept != problem_.ignore_index) {
        problem_.labels.SetInt(i, kept);
      }
    }
  }

  void Temperatures() {
    if (r_.n == 0) return;
    HostTensor each = HostTensor::Zeros(DType::kF32, {r_.n});
    const int64_t wrong = Below(stream_.At(0)[1], r_.n);
    for (int64_t i = 0; i < r_.n; ++i) {
      const auto& given = problem_.temperature;
      const bool per_row = given && given->shape.size() == 1;
      each.SetFloat(i, given ? given->GetFloat(per_row ? i : 0) : 1);
      const PhiloxBlock bits = stream_.At(i, 2);
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      constexpr float kWrong[] = {0, -0.0F, -1, kInfinity, -kInfinity, -0x1p-149F};
      if (i != wrong && bits[0] % 4 != 0) continue;
      const int64_t which = Below(bits[1], 7);
      if (which == 6) {
        each.SetBits(i, NaNBits(DType::kF32));
      } else {
        each.SetFloat(i, kWrong[which]);
      }
    }
    problem_.temperature = std::move(each);
  }

  const Recipe& r_;
  OwnedProblem& problem_;
  const Stream stream_;
  int64_t dim_ = 0;
};

}  // namespace

uint64_t NaNBits(DType dtype) {
  return dtype == DType::kBf16 ? 0x7fc0 : dtype == DType::kF16 ? 0x7e00 : 0x7fc00000;
}
uint64_t InfinityBits(DType dtype) {
  return dtype == DType::kBf16 ? 0x7f80 : dtype == DType::kF16 ? 0x7c00 : 0x7f800000;
}

void ApplySpecial(const Recipe& recipe, OwnedProblem* problem) { Overlay(recipe, problem).Apply(); }

}  // namespace plumbline::fuzz

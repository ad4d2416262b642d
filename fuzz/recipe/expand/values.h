// SPDX-License-Identifier: Apache-2.0
//
// Fills a recipe's hidden and weight: one function a kind of values. Internal to Expand.
//
// Only integer and exactly rounded operations are used (+ - * / sqrt ldexp), and no libm function whose
// last bit may differ between machines. Values are finite: rounded to the dtype, and clamped to its
// largest.

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "fuzz/base/philox.h"
#include "fuzz/problem/narrow.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/kinds.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

inline Stream StreamOf(const Recipe& recipe, Purpose purpose) {
  return {recipe.seed, static_cast<uint32_t>(purpose)};
}

inline RowBits BitsOf(const Recipe& recipe, Purpose purpose, int64_t row) {
  return {StreamOf(recipe, purpose), row};
}

// The significant bits of a dtype.
inline int PrecisionOf(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16 ? 8 : dtype == kernel::DType::kF16 ? 11 : 24;
}

// The exponent of the last bit of a subnormal.
inline int LowestExponent(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16 ? -133 : dtype == kernel::DType::kF16 ? -24 : -149;
}

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// floor(log2 n), n >= 1.
inline int FloorLog2(int64_t n) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) - 1;
}

// Clamps recipe.exp to the range that the kind of values can express; fp16 has an upper end of its own.
inline int HoldExp(const Recipe& recipe, int low, int high, int high_fp16) {
  return std::clamp(recipe.exp, low, recipe.dtype == kernel::DType::kF16 ? high_fp16 : high);
}

// Sets tensor(i, j) = row_of(i)(j), rounded. j ascends, so that a row may walk along its bits.
template <class RowOf>
void Fill(HostTensor* tensor, RowOf row_of) {
  const double largest = LargestOf(tensor->dtype);
  const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
  // Rows are often short, and converting them one by one took as long as making them.
  constexpr int64_t kChunk = 2048;
  const size_t width = kernel::SizeOf(tensor->dtype);
  std::vector<float> chunk(static_cast<size_t>(std::min(tensor->size(), kChunk + columns)));
  size_t held = 0;
  std::byte* to = tensor->bytes.data();
  const auto flush = [&] {
    Narrow({chunk.data(), held}, tensor->dtype, to);
    to += held * width;
    held = 0;
  };
  for (int64_t i = 0; i < rows; ++i) {
    auto row = row_of(i);
    for (int64_t j = 0; j < columns; ++j) {
      chunk[held++] = static_cast<float>(std::clamp(row(j), -largest, largest));
    }
    if (held >= static_cast<size_t>(kChunk)) flush();
  }
  flush();
}

// Fills both: element d of a row is element(purpose, bits, d), with the bits of that row. Purpose is
// kHidden or kWeight.
template <class Element>
void FillBoth(const Recipe& r, HostTensor* hidden, HostTensor* weight, const Element& element) {
  for (const Purpose purpose : {Purpose::kHidden, Purpose::kWeight}) {
    Fill(purpose == Purpose::kHidden ? hidden : weight, [&](int64_t i) {
      return [&, bits = BitsOf(r, purpose, i)](int64_t d) mutable { return element(purpose, bits, d); };
    });
  }
}

// Fills both with the elements of a kind of fuzz/recipe/expand/kinds.h.
template <class Kind>
void FillKind(const Kind& kind, HostTensor* hidden, HostTensor* weight) {
  Fill(hidden, [&](int64_t i) { return kind.template Hidden<RowBits>(i); });
  Fill(weight, [&](int64_t v) { return kind.template Weight<RowBits>(v); });
}

// Fills hidden [N, H] and weight [V, H], of the recipe's shape and dtype, which are all zero on entry.
using FillFunction = void(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
FillFunction FillValues;

// Kinds whose dot products are exact in fp32 whatever the order of summation: every product is a
// multiple of some 2^q and the sum of magnitudes is at most 2^(q+24).
FillFunction FillConfident, FillLoneOffset, FillConstant;

// Kinds that lose their small terms one by one: fuzz/recipe/expand/swallow.cc.
FillFunction FillSwallowFma, FillSwallowTensor, FillSwallowSum, FillSwallowGrads;

// Kinds at the ends of the range: fuzz/recipe/expand/range.cc.
FillFunction FillSubnormal, FillHuge;

// Kinds defined by the logits along the vocabulary: fuzz/recipe/expand/logits.cc.
FillFunction FillStaircase, FillOutlier, FillUlpApart, FillLseZero, FillEntropyTrap, FillFar;

// Kinds defined by the products: fuzz/recipe/expand/products.cc.
FillFunction FillTruncate, FillPositive, FillSignedZeros, FillFullBits, FillLowRank, FillBitPatterns,
    FillAllExponents;

// The bits of a NaN and of +infinity.
uint64_t NaNBits(kernel::DType dtype);
uint64_t InfinityBits(kernel::DType dtype);

// Expands everything but the values of hidden and weight: labels, temperature, upstream gradients,
// layout and the outputs that are asked for. `argmax` is called if labels are those of the largest or
// smallest logits. Ignored rows that must not affect any result are true in *poisoned; PoisonRow fills
// them.
void ExpandRows(const Recipe& recipe, const std::function<std::vector<int64_t>()>& argmax,
                OwnedProblem* problem, std::vector<bool>* poisoned);

// Fills row `at` of `hidden`, which stands for row `row` of the problem, with values that must not
// affect any result: NaN throughout, one NaN, one infinity of either sign, or a mixture.
void PoisonRow(const Recipe& recipe, int64_t row, HostTensor* hidden, int64_t at);

// Applies recipe.special to a problem that is otherwise complete: fuzz/recipe/expand/special.cc.
void ApplySpecial(const Recipe& recipe, OwnedProblem* problem);

}  // namespace plumbline::fuzz

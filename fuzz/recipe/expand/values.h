// SPDX-License-Identifier: Apache-2.0
//
// Fills a recipe's hidden and weight: one function a kind of values. Internal to Expand.
//
// Only integer and exactly rounded operations are used (+ - * / sqrt ldexp), and no libm function whose
// last bit may differ between machines. Values are finite: rounded to the dtype, and clamped to its
// largest.

#ifndef PLUMBLINE_FUZZ_RECIPE_EXPAND_VALUES_H_
#define PLUMBLINE_FUZZ_RECIPE_EXPAND_VALUES_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "fuzz/base/philox.h"
#include "fuzz/problem/narrow.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/purpose.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

inline Stream StreamOf(const Recipe& recipe, Purpose purpose) {
  return {recipe.seed, static_cast<uint32_t>(purpose)};
}

inline RowBits BitsOf(const Recipe& recipe, Purpose purpose, int64_t row) {
  return {StreamOf(recipe, purpose), row};
}

// The significant bits of a dtype, and its largest finite value as a double.
inline int PrecisionOf(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16 ? 8 : dtype == kernel::DType::kF16 ? 11 : 24;
}
inline double LargestOf(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16  ? 0x1.fep127
         : dtype == kernel::DType::kF16 ? 65504.0
                                        : 0x1.fffffep127;
}

// Computes x * 2^exp, rounded once, like std::ldexp but inline: a call for each element is slow.
inline double Scale(double x, int64_t exp) {
  if (exp < -1022 || exp > 1023)
    return std::ldexp(x, static_cast<int>(std::clamp<int64_t>(exp, -5000, 5000)));
  return x * std::bit_cast<double>(static_cast<uint64_t>(exp + 1023) << 52);
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

// Fills hidden [N, H] and weight [V, H], of the recipe's shape and dtype, which are all zero on entry.
void FillValues(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

// Kinds whose dot products are exact in fp32 whatever the order of summation: every product is a
// multiple of some 2^q and the sum of magnitudes is at most 2^(q+24).
void FillOffset(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillConfident(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillLattice(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillConstant(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

// Kinds that lose their small terms one by one: fuzz/recipe/expand/swallow.cc.
void FillSwallowFma(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillSwallowTensor(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillSwallowSum(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillSwallowGrads(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

// Kinds at the ends of the range: fuzz/recipe/expand/range.cc.
void FillSubnormal(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillHuge(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

// Kinds defined by the logits along the vocabulary: fuzz/recipe/expand/logits.cc.
void FillStaircase(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillTies(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillOutlier(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillUlpApart(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillLseZero(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillEntropyTrap(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillFar(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

// Kinds defined by the products: fuzz/recipe/expand/products.cc.
void FillTruncate(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillPositive(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillSignedZeros(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillFullBits(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillMassive(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillLowRank(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillBitPatterns(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);
void FillAllExponents(const Recipe& recipe, HostTensor* hidden, HostTensor* weight);

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

#endif  // PLUMBLINE_FUZZ_RECIPE_EXPAND_VALUES_H_

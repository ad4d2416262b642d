// SPDX-License-Identifier: Apache-2.0
//
// A recipe: the small, versioned, seeded description from which a problem is expanded, bit for bit the
// same on every machine. Its one-line form is the grammar that --recipe takes, the name of a case, the
// key in JSON and the identity of a test:
//
//   v1 regime=common-offset seed=9f3c dtype=bf16 n=3 v=129 h=8 values=offset exp=16 labels=random
//      label_dtype=int64 grads=random entropy_grads=none reduction=none temperature=1
//      temperature_per_row=0 layout=vocab-major pad=0 grad_stride=1 fp32_grads=0
//
// A key that is left out has the default below; an unknown key or value is an error that names it.

#ifndef PLUMBLINE_FUZZ_RECIPE_H_
#define PLUMBLINE_FUZZ_RECIPE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// How hidden and weight are filled. `exp` is the parameter that each names.
enum class Values : uint8_t {
  kGaussian,     // hidden, weight ~ bell-shaped, logits of standard deviation about 2^exp
  kSmallLse,     // all logits about -2^exp but a few near 0: lse is small, exp(0 - m) is not
  kAllNegative,  // every logit at or below -2^exp, gaps of order 1
  kOffset,       // exact integer logits, small gaps, common offset 2^exp
  kConfident,    // the label leads every other column by about exp bits: 1 - p_y about 2^-exp
  kLattice,      // small integers times powers of two: every dot product exact, the bound of z is 0
  kCancel,       // mirror pairs: sum |h w| is about 2^exp times |z|
  kSwallow,      // one large product, then products below half an ulp of it
  kConstant,     // one value everywhere: ties
  // Swallowing that reaches a given arithmetic's bound (fuzz/expand_swallow.cc).
  kSwallowFma,     // dot products as chains of fused multiply-adds; exp: of the large product
  kSwallowTensor,  // ... on tensor cores that align 16 products to 25 bits; exp: of the large product
  kSwallowSum,     // the sum over the vocabulary; exp: log2 of the columns that a tile adds up first
  kSwallowGrads,   // the sums over vocabulary and rows of the gradients; logits are all 0
  // The ends of the range (fuzz/expand_range.cc).
  kSubnormal,  // one factor subnormal, the other near the largest, or both so small that nothing is
               // left
  kHuge,       // exact logits, many of them equal, sum |h w| about 2^(126 - exp)
};

enum class Labels : uint8_t {
  kRandom,
  kArgmax,
  kFirst,
  kLast,
  kSomeIgnored,
  kAllIgnored,
  kIgnoredNaN,
  kInvalid
};
// kWide: signed powers of two from 2^-60 to 2^60, to 2^8 where dtype is fp16, whose d_logits would
// overflow.
enum class Grads : uint8_t { kNone, kOnes, kRandom, kFirstZero, kWide, kOneHot };

// What is put over the values, after everything else (fuzz/expand_special.cc).
enum class Special : uint8_t {
  kNone,
  kHiddenNaN,      // in one row that counts
  kHiddenInf,      // of either sign, in one row that counts
  kWeightNaN,      // in one row of weight
  kMinusInf,       // some logits, of no row's label, are -inf
  kMinusInfLabel,  // one row's label has a logit of -inf
  kAllMinusInf,    // every logit is -inf
  kPlusInf,        // one logit of every row is +inf
  kTemperature,    // of one row or more: 0, negative, infinite or NaN
};

struct Recipe {
  std::string regime = "free";  // the regime that drew it: a label, expansion ignores it
  uint64_t seed = 0;
  kernel::DType dtype = kernel::DType::kBf16;
  int64_t n = 1, v = 2, h = 1;
  Values values = Values::kGaussian;
  int exp = 0;
  Labels labels = Labels::kRandom;
  kernel::DType label_dtype = kernel::DType::kI64;
  Grads grads = Grads::kOnes;
  Grads entropy_grads = Grads::kNone;
  kernel::Reduction reduction = kernel::Reduction::kNone;
  float temperature = 1;             // written as a hexadecimal float; 1: absent
  bool temperature_per_row = false;  // rows draw from {1/2, 1, 2} times temperature
  bool hidden_major = false;
  int64_t pad = 0;          // hidden_padding, weight_padding and label_offset
  int64_t grad_stride = 1;  // 0, 1 or 2
  bool fp32_grads = false;
  Special special = Special::kNone;
  bool operator==(const Recipe&) const = default;
};

// The one-line form, keys in the order of the struct. Parse(Format(r)) == r. `special` is written only
// where there is something special: lines from before it was a key are still what Format writes.
std::string Format(const Recipe& recipe);

// Leading "v1" required. On error returns false and says which token was refused and why.
bool Parse(std::string_view line, Recipe* recipe, std::string* error);

// Shapes beyond these are refused by Parse: a recipe is expanded in memory.
inline constexpr int64_t kMaxElements = int64_t{1} << 28;

// Deterministic: integer and exactly rounded operations only, no libm, so the same on every machine.
OwnedProblem Expand(const Recipe& recipe);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_RECIPE_H_

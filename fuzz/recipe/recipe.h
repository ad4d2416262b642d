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

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernel/problem.h"

namespace plumbline::fuzz {

// The way in which hidden and weight are filled. `exp` is the parameter that each comment names.
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
  // Swallowing that reaches a given arithmetic's bound (fuzz/recipe/expand/swallow.cc).
  kSwallowFma,     // dot products as chains of fused multiply-adds; exp: of the large product
  kSwallowTensor,  // ... on tensor cores that align 16 products to 25 bits; exp: of the large product
  kSwallowSum,     // the sum over the vocabulary; exp: log2 of the columns that a tile adds up first
  kSwallowGrads,   // the sums over vocabulary and rows of the gradients; logits are all 0
  // The ends of the range (fuzz/recipe/expand/range.cc).
  kSubnormal,  // one factor subnormal, the other near the largest, or both so small that nothing is
               // left
  kHuge,       // exact logits, many of them equal, sum |h w| about 2^(126 - exp)
  // Exact logits, by what they look like along the vocabulary (fuzz/recipe/expand/logits.cc).
  kRising,       // 2^exp up in 64 columns: each tile has a new maximum
  kFalling,      // 2^exp down in 64 columns
  kZigzag,       // up, but every second tile is thrown back
  kTies,         // several columns share the largest logit, +-2^exp; exp is that of the offset
  kOutlier,      // one logit of 0, the others where fp32's weights turn subnormal and vanish
  kUlpApart,     // the two largest logits, about +-2^exp, differ in the last bit of fp32
  kLseZero,      // all logits about -ln V
  kEntropyTrap,  // about +-2^exp, one column leading by 8 to 24
  kFar,          // up to +-2^exp, beyond fp16 though no factor is
  // Values by what the products look like (fuzz/recipe/expand/products.cc).
  kTruncate,      // addends just under an ulp of the accumulator, +-2^exp
  kPositive,      // all products positive, logits about 2^exp
  kSignedZeros,   // half of the elements +0 or -0, the others of size 1 and 2^exp
  kFullBits,      // every significand ends in 1; logits of standard deviation about 2^exp
  kMassive,       // a few channels of hidden a hundred thousand times the others; logits about 2^exp
  kLowRank,       // rows that are copies of each other, or 0; logits about 2^exp
  kBitPatterns,   // TestFloat's significands, exponents up to +-exp
  kAllExponents,  // every exponent as likely
};

enum class Labels : uint8_t {
  kRandom,
  kArgmax,
  kFirst,
  kLast,
  kSomeIgnored,
  kAllIgnored,
  kIgnoredNaN,
  kInvalid,
  kArgmin,
  kTileEdge,    // first or last column of a tile of 16 to 256
  kLastTile,    // in the last of such tiles, which may be partial
  kSame,        // one column for all rows
  kDistinct,    // as few rows share a column as can be
  kOneValid,    // all rows but one ignored
  kFarIgnored,  // ignore_index is 2^32 above the label of rows that count
  // Rows as the tokens of sequences (fuzz/recipe/expand/sequences.h); the labels of rows that count are
  // random.
  kPrompts,  // a long ignored prompt before a short answer, in each of a few sequences
  kPadded,   // the tail of each of a few sequences is ignored
  kPacked,   // many short sequences; the last row of each is ignored
};
// kWide: signed powers of two from 2^-60 to 2^60, or to 2^8 if dtype is fp16, whose d_logits would
// overflow. kAlternating: the same largest power, signs alternating by row. kTiny: powers of two from
// 2^-30 to 2^-20, at which a d_logit in fp16 is 0. kExtreme: signed powers of two from 2^-140 to 2^120
// min(T, 1), or to 2^8 min(T, 1) if dtype is fp16. kSignedZeros: +0 or -0 in half of the rows.
// kAdvantages: one advantage for all rows of a sequence, normalised over a group of sequences.
// kClipped: the same times a ratio near 1, and 0 where it is clipped. kMasked: 1 over the number of
// rows in the answers of sequences, 0 in their prompts.
enum class Grads : uint8_t {
  kNone,
  kOnes,
  kRandom,
  kFirstZero,
  kWide,
  kOneHot,
  kAlternating,
  kTiny,
  kExtreme,
  kSignedZeros,
  kAdvantages,
  kClipped,
  kMasked,
};

// The special values that are written over the others, last of all (fuzz/recipe/expand/special.cc).
enum class Special : uint8_t {
  kNone,
  kHiddenNaN,      // in one row that counts
  kHiddenInf,      // either sign, in one row that counts
  kWeightNaN,      // in one row of weight
  kMinusInf,       // some logits, of no row's label, are -inf
  kMinusInfLabel,  // one row's label has a logit of -inf
  kAllMinusInf,    // every logit is -inf
  kPlusInf,        // one logit of every row is +inf
  kTemperature,    // one row's or more: 0, negative, infinite or NaN
  kMaskedFirst,    // every logit of the first tile or tiles is -inf, labels are elsewhere
  kMaskedButOne,   // every logit but one is -inf, and that one is the label of every row
};

// The way in which the rows of hidden, labels and gradients lie in memory.
enum class Rows : uint8_t {
  kForward,
  kReversed,   // last first: negative strides, of weight as well
  kBroadcast,  // one row of hidden for all, stride 0
};

// The tensor whose stride is so large that its last element lies beyond 2^31 or 2^32 elements.
enum class Wide : uint8_t { kNone, kHidden, kWeight, kLabels, kGrads };

// The outputs that are asked for beside logprob or loss. Gradients are given only if there is an
// upstream gradient.
enum Want : unsigned {
  kWantEntropy = 1,
  kWantLse = 2,
  kWantGradHidden = 4,
  kWantGradWeight = 8,
  kWantAll = 15
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
  int64_t temperature_spread = 1;  // rows draw from 2^-spread to 2^spread instead of {1/2, 1, 2}
  unsigned want = kWantAll;
  Rows rows = Rows::kForward;
  int64_t label_stride = 1;  // 0: the label of row 0 for all
  int64_t offset = 0;        // elements by which the tensors start past an aligned address
  Wide wide = Wide::kNone;
  int64_t temperature_stride = 1;  // of a temperature per row
  int64_t output_stride = 1;       // of logprob, entropy and lse
  int64_t gradient_step = 1;       // Layout::gradient_step
  int64_t single_stride = 1;       // Layout::single_stride
  bool operator==(const Recipe&) const = default;
};

// The one-line form, with keys in the order of the struct. Parse(Format(r)) == r. From `special` on,
// keys are written only if they differ from their default: lines older than those keys are thus still
// what Format writes.
std::string Format(const Recipe& recipe);

// Parse refuses larger shapes, since a recipe is expanded in memory. Logits are not: N * V may be
// kMaxLogits if H is at most kManyLogitsHidden, where a case takes minutes.
inline constexpr int64_t kMaxElements = int64_t{1} << 28;
inline constexpr int64_t kMaxLogits = int64_t{1} << 32;
inline constexpr int64_t kManyLogitsHidden = 2;
// The same limit for recipes that are expanded on a device (fuzz/gpu/production/device_case.h).
inline constexpr int64_t kMaxDeviceElements = int64_t{1} << 36;

// Parses a line, which must begin with "v1". On error returns false and says which token was refused
// and why. A matrix of more than `most` elements is refused, too.
bool Parse(std::string_view line, Recipe* recipe, std::string* error, int64_t most = kMaxElements);

// Enforces what every drawn and every changed recipe satisfies. A broadcast or scalar gradient is its
// element 0 alone, so it never has a kind that differs by row. Without a vocabulary every row is
// ignored.
void KeepSensible(Recipe* recipe);

}  // namespace plumbline::fuzz

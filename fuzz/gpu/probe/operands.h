// SPDX-License-Identifier: Apache-2.0
//
// Operands of dot products that test the rules of a tensor core, each kind another rule.

#pragma once

#include <cstdint>

#include "fuzz/base/mix.h"
#include "kernel/dtype.h"

namespace plumbline::fuzz {

// A stream of bits: SplitMix64 in counter form.
class OperandRandom {
 public:
  explicit OperandRandom(uint64_t seed) : seed_(seed) {}
  uint64_t Next() { return Mix(seed_, count_++); }
  // Returns a roughly normal number of variance 1.
  float Bell() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(Next() >> 11) * 0x1p-53;
    return static_cast<float>(sum);
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

enum class DataKind : uint8_t {
  kBell,        // ordinary numbers
  kPatterns,    // any bits but infinities and NaN
  kSpecial,     // the same with infinities, NaN and zeros among them
  kSpread,      // exponents of products over some 60 binades: terms are truncated, or lost
  kCancelling,  // large terms of both signs: the result is what the alignment kept
  kLike,        // all terms of one sign and near the largest significand: the sum needs 33 bits
  kSubnormal,   // subnormal elements beside ordinary ones
  kTinyDense,   // products from 2^-120 to 2^-160, no term zero
  kTinySparse,  // the same with zeros among the terms
  kHuge,        // sums on both sides of the largest fp32
  kLost,        // products below 2^-144, most of them zeros of either sign: they truncate to 0
};
inline constexpr int kDataKinds = 11;
const char* NameOf(DataKind kind);

// Fills a and b with `depth` numbers that dtype holds.
void DrawOperands(kernel::DType dtype, DataKind kind, int64_t depth, OperandRandom* random, float* a,
                  float* b);

}  // namespace plumbline::fuzz

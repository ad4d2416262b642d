// SPDX-License-Identifier: Apache-2.0
//
// Dot products in fp32 as an honest kernel forms them, one element a vector lane. Every product of this
// room is one of these; they share no code with kernel/.
//
//   kChain     c <- fma(a, b, c), one k after another, to nearest (where the CPU fuses; else rounded
//              twice)
//   kTowardZero
//              the same, every step rounded toward 0: an addend of the other sign, however small, costs
//              a whole step, which no alignment with two extra bits shows
//   kAligned   a tensor core: blocks of `block` consecutive products and the accumulator are truncated
//              to a multiple of 2^(E - 23 - extra_bits), E the largest exponent among them (of a
//              product, the sum of its operands' exponents), added exactly, and the sum is truncated to
//              fp32. (16, 2) is Hopper, (8, 1) Ampere, (4, 0) Volta (Khattak and Mikaitis 2025)
//
// A model of errors, not of bits: exponents below -100 count as -100, and products are rounded to fp32
// first, which is exact for operands of 16 bits.

#pragma once

#include <cstdint>

namespace plumbline::fuzz {

struct Dot {
  enum class Kind : uint8_t { kChain, kTowardZero, kAligned } kind = Kind::kChain;
  int block = 16;         // kAligned: 1 to 32
  int extra_bits = 2;     // kAligned: 0 to 3
  bool reversed = false;  // the depth is run through from its end; Multiply's callers reverse operands
  // How many multiply-adds of a chain one of its own takes: one core with AVX-512 does 45e9 of a chain
  // a second, and 4.5e9 to 6.3e9 of a tensor core's.
  double Cost() const { return kind == Kind::kAligned ? 8 : 1; }
  bool operator==(const Dot&) const = default;
};

inline constexpr int64_t kProductColumns = 16;  // of a panel of b

// c[r][j] = sum over k of a[r][k] b[k][j], from c[r][j] where `accumulate`, else from 0. A depth may be
// divided between calls after any multiple of `block`.
template <class Real>
struct ProductBlock {
  const Real* a;  // [rows][depth], a_stride from row to row
  int64_t a_stride;
  const float* b;  // [depth][kProductColumns]
  int64_t depth;
  int64_t rows;
  Real* c;  // [rows][kProductColumns], c_stride from row to row
  int64_t c_stride;
  bool accumulate;
};

// Writes `width` lines of `depth` floats, one after the other, as the first columns of a panel,
// [depth][kProductColumns].
void MakePanel(const float* lines, int64_t depth, int64_t width, float* panel);

void Multiply(const Dot& dot, const ProductBlock<float>& block);
// In fp64, whatever `dot` says: exact beside an error in fp32.
void Multiply(const Dot& dot, const ProductBlock<double>& block);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic that errs as much as a contract lets it, in long double. Every operation is moved by its
// full rounding error, in a direction that a seed chooses for each kind of operation. A result that
// fp32 holds exactly is not moved; one below its range underflows or is flushed, as the contract says.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "kernel/dtype.h"
#include "oracle/contract.h"

namespace plumbline::oracle {

using Real = long double;

inline constexpr Real kU = 0x1p-24L;
inline constexpr Real kLeastNormal = 0x1p-126L;
inline constexpr Real kLargest = 0x1.fffffep127L;

// Operations of one kind err in one direction, so that their errors add up.
enum Phase { kLogit, kScale, kArgument, kExp, kSum, kLog, kOutput, kProbability, kProduct, kPhases };

class Machine {
 public:
  Machine(const Contract& contract, kernel::DType hidden, uint64_t seed)
      : contract_(contract), partials_(contract.partials.For(hidden)), rng_(seed) {
    for (int& d : direction_) d = static_cast<int>(rng_() % 4);
    accumulate_ = contract.accumulate;
    if (accumulate_ == Accumulate::kUnknown) {
      accumulate_ = std::array{Accumulate::kFp32, Accumulate::kFp32Truncated,
                               Accumulate::kTensorCore}[rng_() % 3];
      block_ = std::array{16, 8, 4}[rng_() % 3];
      extra_ = block_ == 16 ? 2 : block_ == 8 ? 1 : 0;
    } else {
      block_ = contract.block;
      extra_ = contract.extra_bits;
    }
  }

  bool Flip() { return rng_() % 2 == 0; }
  // Each kind of operation draws its rule: always up, always down, steered (see Steer), or at random.
  Real Sign(Phase phase) {
    const int d = direction_[phase];
    return d < 2 ? (d == 0 ? 1 : -1) : d == 2 && sign_ != 0 ? sign_ : Flip() ? 1 : -1;
  }
  // Sets the direction that steered kinds take from here on; 0: at random.
  void Steer(int sign) { sign_ = sign; }

  Real Round(Real exact, Phase phase, double units = 1) {
    if (exact == 0 || !std::isfinite(exact)) return exact;
    const Real size = std::fabs(exact);
    if (size < kLeastNormal && contract_.flush != Flush::kNone) return 0;
    if (size > kLargest) return exact * std::numeric_limits<Real>::infinity();
    if (units <= 1 && static_cast<Real>(static_cast<float>(exact)) == exact) return exact;
    const Real least = size < kLeastNormal ? 0x1p-150L : 0;
    return exact + Sign(phase) * std::max(size * static_cast<Real>(units) * kU, least);
  }
  // A sum, rounded to nearest or truncated, errs by no more than its smaller operand.
  Real Add(Real a, Real b, Phase phase) {
    const Real exact = a + b, limit = std::min(std::fabs(a), std::fabs(b));
    // fp32 would keep nothing of the smaller one, long double too little.
    if (limit < 0x1p-40L * std::fabs(exact)) return std::fabs(a) > std::fabs(b) ? a : b;
    const Real rounded = Round(exact, phase);
    return rounded == 0 ? 0 : exact + std::clamp(rounded - exact, -limit, limit);
  }
  // a - b. fp32 subtracts without an error where the result is subnormal and not flushed.
  Real Difference(Real a, Real b) {
    const bool exact = contract_.flush == Flush::kNone && std::fabs(a - b) < kLeastNormal;
    return exact ? a - b : Round(a - b, kProduct);
  }
  // A distance from the maximum of its tile as it is kept for backward; 0 is exact.
  Real Kept(Real distance) {
    const Real lost = static_cast<Real>(contract_.kept_argument) * distance + 0x1p-25L;
    return distance == 0 ? 0 : std::max(0.0L, distance + Sign(kArgument) * lost);
  }
  Real Divide(Real a, Real b) { return Round(a / b, kProbability, contract_.division_error); }
  Real Exp(Real x) {  // 1 at 0, as for every exponential
    if (x == 0) return 1;
    const Real exact = std::exp(x);
    if (exact < kLeastNormal) {
      const bool kept = contract_.exp_gradual && contract_.flush == Flush::kNone;
      // Measured for ex2.approx on an H200 between 2^-151 and 2^-126; 0 below.
      return kept && exact > 0x1p-151L ? std::max(0.0L, exact + Sign(kExp) * 2.38L * 0x1p-149L) : 0;
    }
    if (exact > kLargest) return std::numeric_limits<Real>::infinity();
    return exact * (1 + Sign(kExp) * static_cast<Real>(contract_.exp_error) * kU);
  }
  Real Log(Real s) {  // not negative for s >= 1
    const Real exact = std::log(s);
    const bool absolute = s < 2 && contract_.log_error_absolute > 0;
    const Real error = absolute
                           ? static_cast<Real>(contract_.log_error_absolute) * kU
                           : static_cast<Real>(contract_.log_error_relative) * kU * std::fabs(exact);
    if (s == 1) return 0;
    const Real log = exact + Sign(kLog) * error;
    return s > 1 ? std::max(0.0L, log) : log;
  }
  // Rounds an input, or d_logits, as an operand of a product.
  Real Operand(Real x) {
    if (contract_.flush == Flush::kOperands && std::fabs(x) < kLeastNormal) return 0;
    if (contract_.input_rounding == 0) return x;
    // TF32 and bf16 have the exponents of fp32: below 2^-126 their error no longer shrinks with x.
    const Real rho = static_cast<Real>(contract_.input_rounding), size = std::fabs(x);
    return x + Sign(kLogit) * std::min(size, rho * std::max(size, kLeastNormal));
  }
  Real Dot(const std::vector<Real>& a, const std::vector<Real>& b) {
    std::vector<Real> products;
    for (size_t d = 0; d < a.size(); ++d) products.push_back(Operand(a[d]) * Operand(b[d]));
    const size_t parts = std::min(products.size(), static_cast<size_t>(contract_.split));
    if (parts <= 1) return Sum(products);
    Real sum = 0;
    for (size_t part = 0; part < parts; ++part) {
      const auto at = [&](size_t p) {
        return products.begin() + static_cast<int64_t>(products.size() * p / parts);
      };
      const Real partial = StoredPartial(Sum({at(part), at(part + 1)}));
      sum = part == 0 ? partial : StoredPartial(AddPartial(sum, partial));
    }
    return sum;
  }
  // A dot product of a gradient, chunk by chunk where it is accumulated in 16 bits.
  Real InChunks(const std::vector<Real>& a, const std::vector<Real>& b, int64_t chunk,
                int64_t stretch) {
    const kernel::DType accumulator = contract_.accumulator.value_or(kernel::DType::kF32);
    if (accumulator == kernel::DType::kF32) return Stretched(a, b, stretch);
    const auto step = static_cast<size_t>(std::max<int64_t>(chunk, 1));
    Real sum = 0;
    for (size_t first = 0; first < a.size(); first += step) {
      const auto begin = static_cast<int64_t>(first);
      const auto end = static_cast<int64_t>(std::min(a.size(), first + step));
      const Real part = Stretched({a.begin() + begin, a.begin() + end},
                                  {b.begin() + begin, b.begin() + end}, stretch);
      sum = Accumulate16(sum, part, accumulator);
    }
    return sum;
  }
  // A dot product in stretches, each summed from zero; 0: of one.
  Real Stretched(const std::vector<Real>& a, const std::vector<Real>& b, int64_t stretch) {
    const auto length = static_cast<int64_t>(a.size());
    if (stretch == 0 || stretch >= length) return Dot(a, b);
    Real sum = 0;
    for (int64_t first = 0; first < length; first += stretch) {
      const int64_t end = first + std::min(stretch, length - first);
      const Real part = Dot({a.begin() + first, a.begin() + end}, {b.begin() + first, b.begin() + end});
      sum = first == 0 ? part : AddPartial(sum, part);
    }
    return sum;
  }
  // Adds partial dot products: to nearest in fp32, else truncated.
  Real AddPartial(Real a, Real b) {
    const Real exact = a + b;
    if (accumulate_ == Accumulate::kFp32) return Round(exact, kLogit);
    if (!std::isfinite(exact) || static_cast<Real>(static_cast<float>(exact)) == exact) return exact;
    return std::fabs(exact) < kLeastNormal ? Round(exact, kLogit) : exact * (1 - 2 * kU);
  }
  // Adds `part` to a gradient that is kept in `dtype` from chunk to chunk.
  Real Accumulate16(Real kept, Real part, kernel::DType dtype) {
    const Real sum = Store(kept + part, dtype);
    const Real largest = dtype == kernel::DType::kBf16 ? 0x1.fep127L : 65504.0L;
    return std::fabs(sum) > largest ? sum * std::numeric_limits<Real>::infinity() : sum;
  }
  // Moves a number by half an ulp of its dtype, or to 0 where that is nearer.
  Real Store(Real x, kernel::DType dtype) {
    if (dtype == kernel::DType::kF32 || x == 0) return x;
    const auto [u, eta, least] = FormatOf(dtype);
    return x + Sign(kOutput) * (std::fabs(x) < least ? std::min(eta, std::fabs(x)) : u * std::fabs(x));
  }
  // d_logits are rounded to nearest, because products of two 16-bit numbers must be exact.
  static Real Nearest(Real x, kernel::DType dtype) {
    if (dtype == kernel::DType::kF32 || x == 0 || !std::isfinite(x)) return x;
    const auto [u, eta, least] = FormatOf(dtype);
    const int bit = std::ilogb(std::max(std::fabs(x), least)) + 1 + std::ilogb(u);
    const Real rounded = std::ldexp(std::nearbyint(std::ldexp(x, -bit)), bit);
    const Real largest = dtype == kernel::DType::kBf16 ? 0x1.fep127L : 65504.0L;
    return std::fabs(rounded) > largest ? x * std::numeric_limits<Real>::infinity() : rounded;
  }
  // The same, where a contract may leave it out.
  static Real Nearest(Real x, std::optional<kernel::DType> dtype) {
    return dtype ? Nearest(x, *dtype) : x;
  }
  Real Store(Real x, std::optional<kernel::DType> dtype) { return dtype ? Store(x, *dtype) : x; }

 private:
  Real Sum(const std::vector<Real>& products) {
    return accumulate_ == Accumulate::kTensorCore ? Aligned(products) : Chain(products);
  }
  Real StoredPartial(Real x) {
    const Real stored = Store(x, partials_);
    return std::fabs(stored) > kLargest ? x * std::numeric_limits<Real>::infinity() : stored;
  }

  struct Format {
    Real u, eta, least;
  };
  static Format FormatOf(kernel::DType dtype) {
    return dtype == kernel::DType::kBf16 ? Format{0x1p-8L, 0x1p-134L, kLeastNormal}
                                         : Format{0x1p-11L, 0x1p-25L, 0x1p-14L};
  }

  Real Chain(const std::vector<Real>& products) {
    const bool truncated = accumulate_ == Accumulate::kFp32Truncated;
    Real sum = 0;
    for (const Real product : products) {
      const Real exact = sum + product;
      if (!truncated) {
        sum = Round(exact, kLogit);
      } else if (static_cast<Real>(static_cast<float>(exact)) == exact) {
        sum = Round(exact, kLogit);
      } else {
        sum = exact * (1 - 2 * kU);
        if (contract_.flush != Flush::kNone && std::fabs(exact) < kLeastNormal) sum = 0;
      }
    }
    return sum;
  }
  // Sums a block of products and the accumulator, aligned to the largest and truncated.
  Real Aligned(const std::vector<Real>& products) {
    const auto truncate = [](Real x, int bit) {
      return std::ldexp(std::trunc(std::ldexp(x, -bit)), bit);
    };
    Real sum = 0;
    for (size_t first = 0; first < products.size(); first += static_cast<size_t>(block_)) {
      const size_t last = std::min(products.size(), first + static_cast<size_t>(block_));
      Real largest = std::fabs(sum);
      for (size_t d = first; d < last; ++d) largest = std::max(largest, std::fabs(products[d]));
      if (largest == 0) continue;
      // A sum that is not finite has no bits to cut off, and ilogb has no number for it.
      if (!std::isfinite(largest)) return std::numeric_limits<Real>::quiet_NaN();
      const int bit = std::max(std::ilogb(largest) - 23 - extra_, -149);
      Real block = truncate(sum, bit);
      for (size_t d = first; d < last; ++d) block += truncate(products[d], bit);
      if (!std::isfinite(block)) return block;
      sum = block == 0 ? 0 : truncate(block, std::max(std::ilogb(block) - 23, -149));
      if (contract_.flush != Flush::kNone && std::fabs(sum) < kLeastNormal) sum = 0;
    }
    return sum;
  }

  const Contract& contract_;
  std::optional<kernel::DType> partials_;
  std::mt19937_64 rng_;
  std::array<int, kPhases> direction_{};
  int sign_ = 0;
  Accumulate accumulate_ = Accumulate::kFp32;
  int block_ = 16, extra_ = 2;
};

// The largest logit of the tile of kept exponents that column v lies in.
inline Real TopOfTile(const std::vector<Real>& x, size_t v) {
  constexpr size_t kTile = 3;
  const size_t first = v / kTile * kTile;
  Real top = x[first];
  for (size_t i = first; i < std::min(first + kTile, x.size()); ++i) top = std::max(top, x[i]);
  return top;
}

}  // namespace plumbline::oracle

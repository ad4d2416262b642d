// SPDX-License-Identifier: Apache-2.0
//
// The elements of hidden and weight, for the kinds of values that have a form on a device. The host
// fills whole rows with them, in order; on a device each thread makes one element. Constructors, which
// compute what is the same for all elements, run on the host.
//
// Hidden<Bits>(i)(d) is hidden[i, d] and Weight<Bits>(v)(d) is weight[v, d], before they are rounded.
// Only integer and exactly rounded operations are used, so both sides make the same bits. Nothing but
// FillValues and fuzz/recipe/expand/device_values.h should need this header.

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fuzz/base/philox.h"
#include "fuzz/recipe/expand/purpose.h"
#include "fuzz/recipe/recipe.h"

#ifdef __CUDACC__
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE
#endif

namespace plumbline::fuzz {

// The largest finite value of a dtype.
inline double LargestOf(kernel::DType dtype) {
  return dtype == kernel::DType::kBf16  ? 0x1.fep127
         : dtype == kernel::DType::kF16 ? 65504.0
                                        : 0x1.fffffep127;
}

// Computes x * 2^exp, rounded once, like std::ldexp but inline: a call for each element is slow.
PLUMBLINE_HOST_DEVICE inline double Scale(double x, int64_t exp) {
  if (exp < -1022 || exp > 1023)
    return std::ldexp(x, static_cast<int>(std::clamp<int64_t>(exp, -5000, 5000)));
  return x * std::bit_cast<double>(static_cast<uint64_t>(exp + 1023) << 52);
}

// The bits of RowBits, for threads that make one element each.
class BitsOfOneElement {
 public:
  PLUMBLINE_HOST_DEVICE BitsOfOneElement(const Stream& stream, int64_t row)
      : stream_(stream), row_(row) {}

  // An index that is not a constant would move the block from registers to memory.
  PLUMBLINE_HOST_DEVICE uint32_t Word(int64_t column) const {
    const PhiloxBlock block = stream_.At(row_, column / 4);
    const int at = static_cast<int>(column % 4);
    return at == 0 ? block[0] : at == 1 ? block[1] : at == 2 ? block[2] : block[3];
  }
  PLUMBLINE_HOST_DEVICE uint64_t Pair(int64_t column) const {
    const PhiloxBlock block = stream_.At(row_, column / 2);
    const bool second = column % 2 != 0;
    return uint64_t{second ? block[3] : block[1]} << 32 | (second ? block[2] : block[0]);
  }

 private:
  Stream stream_;
  int64_t row_;
};

struct Kind {
  uint64_t seed = 0;

  PLUMBLINE_HOST_DEVICE Stream Of(Purpose purpose) const {
    return {seed, static_cast<uint32_t>(purpose)};
  }
};

// Bell-shaped logits of standard deviation 2^exp.
struct Gaussian : Kind {
  double scale;

  explicit Gaussian(const Recipe& r);
  Gaussian(const Recipe& r, int exp);

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    return [bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable { return Bell(bits.Pair(d)); };
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    return [*this, bits = Bits(Of(Purpose::kWeight), v)](int64_t d) mutable {
      return scale * Bell(bits.Pair(d));
    };
  }
};

// Dimension 0 carries a row's scale, 1 to 2 in quarters, and the others a non-negative spread.
struct PositiveHidden : Kind {
  int64_t scales;  // how many different ones

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    const double scale = 1 + static_cast<double>(Below(Of(Purpose::kHiddenPlan).At(i)[0], scales)) / 4;
    return [scale, bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable {
      return d == 0 ? scale : std::fabs(Bell(bits.Pair(d)));
    };
  }
  // The other factor of that spread, whose products have the mean 0.64 * mean over `dims` dimensions.
  PLUMBLINE_HOST_DEVICE static double Spread(uint64_t bits, double mean, int64_t dims) {
    return std::fabs(Bell(bits)) * mean / static_cast<double>(dims);
  }
};

// Dimension 0 carries the logit times the row's scale of 1, 1.25 or 1.5: 0 to -2 for up to three
// columns, -2^exp to -1.5 * 2^exp for the others. The other dimensions lower each by about 0.3. So the
// maximum is near 0 but never above it, and columns beyond V, if read as 0, would weigh more than all
// that exist.
struct SmallLse : PositiveHidden {
  double depth;
  int64_t h;
  int64_t near[3] = {-1, -1, -1};

  explicit SmallLse(const Recipe& r);

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    const double unit = Unit(Of(Purpose::kWeightPlan).At(v)[0]);
    const bool is_near = v == near[0] || v == near[1] || v == near[2];
    const double logit = is_near ? -2 * unit : -depth * (1 + unit / 2);
    return [*this, logit, bits = Bits(Of(Purpose::kWeight), v)](int64_t d) mutable {
      return d == 0 ? logit : -Spread(bits.Pair(d), 0.5, h - 1);
    };
  }
};

// Dimension 0 is -2^exp in every column, dimension 1 is a gap of 0 to -4, and the rest lower each by
// about 0.2. If there is only dimension 0, it carries gaps of multiples of 2^(exp-7), which every dtype
// represents.
struct AllNegative : PositiveHidden {
  double depth;
  int64_t h;

  explicit AllNegative(const Recipe& r);

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    const uint32_t gap = Of(Purpose::kWeightPlan).At(v)[0];
    return [*this, gap, bits = Bits(Of(Purpose::kWeight), v)](int64_t d) mutable {
      if (h == 1) return -depth * (1 + static_cast<double>(Below(gap, 8)) / 128);
      if (d == 0) return -depth;
      if (d == 1) return -4 * Unit(gap);
      return -Spread(bits.Pair(d), 0.25, h - 2);
    };
  }
};

// Small integers in up to two of the dimensions from `from` on, which are drawn for each column.
class SparseNoise {
 public:
  // Each lies in [least, least + values).
  PLUMBLINE_HOST_DEVICE SparseNoise(const PhiloxBlock& plan, int64_t from, int64_t dims, int64_t least,
                                    int64_t values)
      : first_(from + (dims > 0 ? Below(plan[0], dims) : 0)),
        second_(from + (dims > 0 ? Below(plan[1], dims) : 0)),
        at_first_(least + Below(plan[2], values)),
        at_second_(least + Below(plan[3], values)) {}

  PLUMBLINE_HOST_DEVICE double operator()(int64_t d) const {
    return static_cast<double>((d == first_ ? at_first_ : 0) + (d == second_ ? at_second_ : 0));
  }

 private:
  int64_t first_, second_, at_first_, at_second_;
};

// Integers. The first dimensions carry a common offset of about 2^exp as representable parts, the
// others gaps from 0 to 8. H is at least 2.
struct Offset : Kind {
  double sign;
  int64_t h, parts;
  double values[3];  // of the parts

  explicit Offset(const Recipe& r);

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    return [*this, bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable {
      return d < parts ? sign : static_cast<double>(1 + Below(bits.Word(d), 2));
    };
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    const SparseNoise gaps(Of(Purpose::kWeightPlan).At(v), parts, h - parts, 0, 3);
    return [*this, gaps](int64_t d) { return d < parts ? values[d] : gaps(d); };
  }
};

// Row i leads through dimension i mod D: there one vocabulary column has the weight G and the others 0.
// D = min(N, H), so rows share a leading column only if there are too few dimensions. With G = ln 2
// (exp + log2(V - 1)) the others together weigh about 2^-exp. The remaining dimensions carry noise of
// at most 1/2. All values are multiples of 2^-3 and 2^-6.
struct Confident : Kind {
  int64_t v, h, leaders;
  double lead;
  const int64_t* table = nullptr;  // Leading(d) for all d, where it is read often

  explicit Confident(const Recipe& r);

  // The column that leads dimension d.
  PLUMBLINE_HOST_DEVICE int64_t Leading(int64_t d) const {
    return table != nullptr ? table[d] : Below(Of(Purpose::kPlan).At(d)[0], v);
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    return [*this, i, bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable {
      if (d >= leaders) return static_cast<double>(Below(bits.Word(d), 17) - 8) / 8;
      return d == i % leaders ? 1.0 : static_cast<double>(Below(bits.Word(d), 3) - 1) / 64;
    };
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t column) const {
    const SparseNoise noise(Of(Purpose::kWeightPlan).At(column), leaders, h - leaders, -2, 5);
    return [*this, column, noise](int64_t d) {
      if (d < leaders) return Leading(d) == column ? lead : 0.0;
      return noise(d) / 8;
    };
  }
};

// Integers up to A, times powers of two that make the logits' standard deviation about 2^exp. The
// number of bits of A is random: few bits give ties, many fill all 24 bits of fp32.
struct Lattice : Kind {
  int64_t limit;  // A
  int hidden_exp, weight_exp;

  explicit Lattice(const Recipe& r);

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    return Row(Bits(Of(Purpose::kHidden), i), hidden_exp);
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    return Row(Bits(Of(Purpose::kWeight), v), weight_exp);
  }

 private:
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Row(const Bits& of_row, int exp) const {
    return [*this, exp, bits = of_row](int64_t d) mutable {
      return Scale(static_cast<double>(Below(bits.Word(d), 2 * limit + 1) - limit), exp);
    };
  }
};

// Dot products that carry integers of up to 24 bits: 7 bits a dimension, which every dtype holds. If
// there are too few dimensions, only the highest digits are carried. Powers of two move from weight to
// hidden where fp16 would not hold them.
class Digits {
 public:
  // Logits are k 2^least with |k| < 2^bits.
  Digits(const Recipe& r, int least, int bits);

  PLUMBLINE_HOST_DEVICE int64_t dims() const { return dims_; }
  PLUMBLINE_HOST_DEVICE double Hidden(int64_t d) const { return Scale(1.0, Share(d)); }
  PLUMBLINE_HOST_DEVICE double Weight(int64_t k, int64_t d) const {
    const int64_t digit = ((k < 0 ? -k : k) >> (7 * Place(d))) & 127;
    return Scale(static_cast<double>(k < 0 ? -digit : digit), Exponent(d) - Share(d));
  }

 private:
  PLUMBLINE_HOST_DEVICE int64_t Place(int64_t d) const { return all_ - 1 - d; }  // highest first
  PLUMBLINE_HOST_DEVICE int Exponent(int64_t d) const {
    return least_ + 7 * static_cast<int>(Place(d));
  }
  PLUMBLINE_HOST_DEVICE int Share(int64_t d) const {
    if (!fp16_) return 0;
    return Exponent(d) > 8 ? Exponent(d) - 8 : Exponent(d) < -24 ? Exponent(d) + 24 : 0;
  }

  bool fp16_;
  int least_;
  int64_t all_, dims_;
};

// Makes logit v about integer_of(v) 2^least; if `scaled`, times 2^-1, 1 or 2 by row. With `noise` the
// dimensions beyond the digits carry multiples of 1/64 up to 1/2.
template <class IntegerOf>
struct Integers : Kind {
  Digits digits;
  int64_t h;
  bool scaled, noise;
  IntegerOf integer_of;

  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    const int scale = scaled ? static_cast<int>(Below(Of(Purpose::kHiddenPlan).At(i)[0], 3)) - 1 : 0;
    return [*this, scale, bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable {
      if (d < digits.dims()) return Scale(digits.Hidden(d), scale);
      // Without noise hidden holds integers: finer values would make the products' lattice finer than
      // the logits'.
      return static_cast<double>(Below(bits.Word(d), 17) - 8) / (noise ? 8 : 1);
    };
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    const SparseNoise rest(Of(Purpose::kWeightPlan).At(v), digits.dims(), h - digits.dims(), -2, 5);
    return [*this, rest, k = integer_of(v)](int64_t d) {
      if (d < digits.dims()) return digits.Weight(k, d);
      return noise ? rest(d) / 8 : 0.0;
    };
  }
};

// Several columns share the largest logit, +-2^exp, to the bit: a pair beside a tile edge, all columns
// beside edges, or half of all. The others are 1/8 to 8 below.
struct TiedInteger : Kind {
  int64_t tile, edge, style, top;

  explicit TiedInteger(const Recipe& r);

  PLUMBLINE_HOST_DEVICE int64_t operator()(int64_t v) const {
    const uint32_t word = Of(Purpose::kWeight).At(v)[0];
    const bool tied = style == 0   ? v == edge || v == edge - 1
                      : style == 1 ? v % tile == 0 || v % tile == tile - 1
                                   : (word & 1) != 0;
    return tied ? top : top - 1 - Below(word, 64);
  }
};
using Ties = Integers<TiedInteger>;
Ties TiesOf(const Recipe& r);

// One to three channels of hidden hold 1 000 to 8 000 in every row, as the residual streams of large
// models do. The others hold 2^-6, yet their share of a logit is of order 2^exp too.
struct Massive : Kind {
  int64_t channels[3];
  int exp;

  explicit Massive(const Recipe& r);

  PLUMBLINE_HOST_DEVICE bool IsMassive(int64_t d) const {
    return d == channels[0] || d == channels[1] || d == channels[2];
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Hidden(int64_t i) const {
    return [*this, bits = Bits(Of(Purpose::kHidden), i)](int64_t d) mutable {
      const uint64_t pair = bits.Pair(d);
      if (!IsMassive(d)) return 0x1p-6 * Bell(pair);
      const double sign = (d & 1) != 0 ? -1 : 1;
      return sign * (1000 + 7000 * Unit(static_cast<uint32_t>(pair)));
    };
  }
  template <class Bits>
  PLUMBLINE_HOST_DEVICE auto Weight(int64_t v) const {
    return [*this, bits = Bits(Of(Purpose::kWeight), v)](int64_t d) mutable {
      return Scale(Bell(bits.Pair(d)), IsMassive(d) ? exp - 12 : 0);
    };
  }
};

// Calls visit(kind) if the recipe's values are of a kind above.
template <class Visit>
void VisitKind(const Recipe& r, const Visit& visit) {
  switch (r.values) {
    case Values::kGaussian:
      return visit(Gaussian(r));
    case Values::kSmallLse:
      return visit(SmallLse(r));
    case Values::kAllNegative:
      return visit(AllNegative(r));
    case Values::kOffset:
      return visit(Offset(r));
    case Values::kConfident:
      return visit(Confident(r));
    case Values::kLattice:
      return visit(Lattice(r));
    case Values::kTies:
      return visit(TiesOf(r));
    case Values::kMassive:
      return visit(Massive(r));
    default:
      return;
  }
}

}  // namespace plumbline::fuzz

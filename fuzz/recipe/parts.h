// SPDX-License-Identifier: Apache-2.0
//
// The parts that the generators of recipes are composed of: shape, content (values, their parameter,
// labels), upstream gradients and setting. Internal to the tables of regimes and
// fuzz/recipe/generate.cc.

#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <utility>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Limits on the cost of a case: in multiply-adds of one product of N x V x H, and in elements of
// weight, which are written and judged one by one. A campaign needs a thousand cases a second. N is cut
// first, then H. One case in about a hundred is big instead and costs kBigCost or up to a fifth more.
inline constexpr int64_t kMaxCost = 500'000;
inline constexpr int64_t kMaxWeights = 100'000;
inline constexpr int64_t kBigCost = 10'000'000;  // at least, and at most a fifth more

struct Shape {
  int64_t n, v, h;
  bool big = false;  // not cut, and hardly ever fp32, five times as slow on a tensor core
};
struct Content {
  Values values;
  int exp;
  Labels labels;
  Special special = Special::kNone;
};
struct Upstream {
  Grads grads, entropy_grads;
  kernel::Reduction reduction;
  int64_t stride;
  bool fp32;
};

// Returns the parameter of values that are to be in fp16: at most 2^14 where it is a magnitude, since
// 2^15 and more is near 65504.
int HalfExp(Values values, int exp);

rc::Gen<bool> Percent(size_t percent);

// A part with some of its members drawn anew.
template <class Part, class Value>
struct Drawn {
  Value Part::*member;
  rc::Gen<Value> value;
};
template <class Part, class... Value>
rc::Gen<Part> With(rc::Gen<Part> part, Drawn<Part, Value>... drawn) {
  return rc::gen::apply(
      [... members = drawn.member](Part with, Value... values) {
        ((with.*members = values), ...);
        return with;
      },
      std::move(part), std::move(drawn.value)...);
}

// Shapes. Sizes at which loops end differently: below one tile, at and beside multiples of tiles,
// beyond 8 tiles of 64 columns (several tiles a part), beside blocks of 96 rows and 256 deep.
rc::Gen<int64_t> AnyRows();
rc::Gen<int64_t> SeveralRows();
rc::Gen<int64_t> HiddenSize();
rc::Gen<int64_t> Vocab();
rc::Gen<int64_t> RaggedVocab();  // never a multiple of 16
rc::Gen<Shape> Shapes(rc::Gen<int64_t> n, rc::Gen<int64_t> v = Vocab(),
                      rc::Gen<int64_t> h = HiddenSize());
// Shapes of 10 to 12 million multiply-adds, most of them by N; V is no multiple of 16.
rc::Gen<Shape> BigShapes();
// Shapes with at least one of N, V and H at its least, and the others small.
rc::Gen<Shape> EdgeShapes();
// Shapes with few columns, few rows, and a depth at which the losses of single steps add up.
rc::Gen<Shape> DeepShapes();
// Shapes with many rows and 64 to 512 columns, a power of two in three of four.
rc::Gen<Shape> LongSumShapes();
// Shapes of 10 to 12 million multiply-adds in which N and H are at least 64 and V at least 1 024.
rc::Gen<Shape> SquareShapes();
// Shapes with H from 2 100 to 8 192, a few rows and columns; big in one of a hundred, V up to 4 096.
rc::Gen<Shape> DeepHiddenShapes();
// Shapes with one or two rows of at most 8 elements. V is at least kLargeVocabulary in 7 of 100, as
// such a case takes a hundred times as long as most; else from 2 000 to 51 000.
rc::Gen<Shape> LargeVocabularyShapes();

// The shapes that most regimes draw: any of the above, a few in a hundred big.
rc::Gen<Shape> BesideBig(rc::Gen<Shape> shapes);
rc::Gen<Shape> UsualShapes();
// The same, with sums of few terms besides: they come near their bound if every logit is exact.
rc::Gen<Shape> ShapesBesideFew();

// Families of shapes for a first look at each regime: one row; a column less than a tile, a tile, a
// column more; several tiles, the last of them ragged; deep; many rows; and the least extents. All are
// cheap.
inline constexpr int kShapeFamilies = 8, kLargeVocabularyFamily = 1, kManyRowsFamily = 6;
rc::Gen<Shape> ShapesOfFamily(int family);  // 0 <= family < kShapeFamilies

// Settings, which vary in the background of every regime: recipes with the rest as by default.
rc::Gen<float> AnyTemperature();
rc::Gen<float> ExactTemperature();  // scaling by these is exact: the bound of exact logits stays narrow
rc::Gen<Recipe> Settings(rc::Gen<float> temperature);
// Settings with both layouts equally likely, and nearly always padding between rows and an offset of
// the labels.
rc::Gen<Recipe> StridedSettings(rc::Gen<float> temperature);
// Settings with exact temperatures, and at least this part of them with this dtype.
rc::Gen<Recipe> MoreOf(kernel::DType dtype, size_t percent);

// Contents. AnyLabels draws labels mostly in the vocabulary. AnyLabels and IgnoringLabels are never
// invalid.
rc::Gen<Labels> AnyLabels();
rc::Gen<Labels> IgnoringLabels();
rc::Gen<Content> Contents(Values values, rc::Gen<int> exp, rc::Gen<Labels> labels = AnyLabels());
rc::Gen<Content> OrdinaryContent(
    rc::Gen<Labels> labels = AnyLabels());  // bell-shaped, exact or constant logits
rc::Gen<int> ConfidentBits();
// Values that swallow terms in the arithmetic of `values`, with labels where the loss shows.
rc::Gen<Content> Swallowing(Values values, rc::Gen<int> exp);
rc::Gen<int> TileBits();

// Upstream gradients of these kinds, mostly without a reduction. Gradients are in fp32 in half of them.
rc::Gen<Upstream> UpstreamOf(rc::Gen<Grads> grads, rc::Gen<Grads> entropy_grads);

// Upstream gradients. UsualUpstream draws them mostly as training has them. HostileUpstream draws each
// alone, both, and some with zeros in the places that a wrong index reads.
rc::Gen<Upstream> UsualUpstream(size_t fp32_percent);
rc::Gen<Upstream> HostileUpstream();
// Upstream gradients of 1 or of order 1, mostly for logprob alone: they lose nothing themselves.
rc::Gen<Upstream> PlainUpstream(size_t fp32_percent);
// Upstream gradients of which at least one has kind `kind`, mostly for logprob.
rc::Gen<Upstream> MostlyOf(Grads kind);

}  // namespace plumbline::fuzz

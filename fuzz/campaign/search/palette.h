// SPDX-License-Identifier: Apache-2.0
//
// A palette of calls for targets that compile, such as Triton's: a first call takes half a second, and
// a campaign of random shapes, dtypes and strides would do nothing else. All cases then have the shape,
// the dtypes and the layout of one of a few dozen or hundred entries.
//
// A shape takes a class of N, of V and of H: one row, a few, a multiple of 8, beside a multiple of 16,
// more than 128; fewer columns than a tile, one less than a tile, a tile, one more, ragged, from 9 500,
// from 131 072; shallow, a few tiles deep, deep. Shape k takes the classes k mod 5, k mod 7 and k
// mod 3. These are coprime, so every pair of classes is among any 35 shapes in a row, and every triple
// that is not too large among 105. Within its class an extent is drawn, so a palette of K shapes has
// about K different vocabularies. V is less than its class where the target's multiples make a case
// dearer than kMostKept.
//
// The dtypes, the layout (padding, strides, offsets, the order of rows), the reduction and which
// upstream gradients there are, are those of a draw of regime k for entry k: most are plain and every
// kind occurs.
//
// By class: a target that compiles for whether an extent is 1, a multiple of 16 or neither, and for the
// power of two from V on, as Triton's do, sees other extents of the classes of an entry as well.

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/recipe/recipe.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {

inline constexpr int64_t kLeastPalette = 8, kMostPalette = 4'096;

// The share of a campaign's time that first calls may take.
inline constexpr double kFirstCallShare = 0.08;

// Returns the number of shapes for first calls that take this long, in a campaign of this long or of
// this many cases (0: of so much time). Every worker compiles for itself, so jobs do not matter.
int64_t PaletteSize(double first_call_seconds, double campaign_seconds, int64_t cases);

class Palette {
 public:
  struct Shape {
    int64_t n = 1, v = 1, h = 1;
    bool operator==(const Shape&) const = default;
  };
  // A pure function of its arguments. Precondition: size >= 1.
  Palette(uint64_t seed, int64_t size, const Capabilities& can, bool by_class = false);
  // Small cases that tell roundings apart: so many logits and multiply-adds at most, as far as the
  // target's multiples allow it, and many columns in place of a vocabulary from 9 500. The entries take
  // the target's dtypes in turn, every third turn a reduction, and all have an upstream gradient.
  static Palette OfSmall(uint64_t seed, int64_t size, const Capabilities& can, int64_t most_logits,
                         int64_t most_products);

  const std::vector<Shape>& shapes() const { return shapes_; }
  // Gives the recipe the shape and the layout of one of the three entries that are nearest to its own,
  // by its seed, with its dtypes, reduction and upstream gradients. Those that agree in the most of
  // these go before others, but only a recipe of a large vocabulary is given one. Nearest is by layout
  // and classes of extents then, those of V above all, then by ratios of extents.
  void Place(Recipe* recipe) const;

 private:
  struct Limits {
    int64_t logits, products;
    bool small;
  };
  Palette(uint64_t seed, int64_t size, const Capabilities& can, bool by_class, const Limits& limits);
  void TakeTurns(const Capabilities& can);
  void TakeExtents(const Shape& shape, Recipe* recipe) const;

  const bool by_class_;
  std::vector<Shape> shapes_;
  std::vector<Recipe> layouts_;  // [shapes]; of each the dtypes and the layout alone count
};

}  // namespace plumbline::fuzz

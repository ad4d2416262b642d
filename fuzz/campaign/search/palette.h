// SPDX-License-Identifier: Apache-2.0
//
// A palette of shapes for targets that compile for each shape, such as Triton's: a first call takes a
// second, and a campaign of random shapes would do nothing else. All cases then have one of a few
// hundred shapes.
//
// A shape takes a class of N, of V and of H: one row, a few, a multiple of 8, beside a multiple of 16,
// more than 128; fewer columns than a tile, one less than a tile, a tile, one more, ragged, from 9 500,
// from 131 072; shallow, a few tiles deep, deep. Shape k takes the classes k mod 5, k mod 7 and k
// mod 3. These are coprime, so every pair of classes is among any 35 shapes in a row, and every triple
// that is not too large among 105. Within its class an extent is drawn, so a palette of K shapes has
// about K different vocabularies. V is less than its class where the target's multiples make a case
// dearer than kMostKept.

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
  Palette(uint64_t seed, int64_t size, const Capabilities& can);

  const std::vector<Shape>& shapes() const { return shapes_; }
  // Gives the recipe one of the three shapes that are nearest to its own, by its seed. Nearest is by
  // classes first, those of V above all, then by ratios of extents.
  void Place(Recipe* recipe) const;

 private:
  std::vector<Shape> shapes_;
};

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/generate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/recipe/regime_table.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;
using rc::Gen;

void FitShape(const Shape& shape, Recipe* r) {
  r->n = shape.n;
  r->v = shape.v;
  r->h = shape.h;
  if (shape.big) {
    if (r->dtype == DType::kF32 && r->seed % 8 != 0) r->dtype = DType::kBf16;
    return;
  }
  r->h = std::min(r->h, std::max<int64_t>(kMaxWeights / std::max<int64_t>(r->v, 1), 8));
  if (r->n > 1) r->n = std::clamp<int64_t>(kMaxCost / std::max<int64_t>(r->v * r->h, 1), 1, r->n);
}

Recipe Assemble(const std::string& regime, uint64_t seed, const Shape& shape, const Content& content,
                const Upstream& upstream, const Recipe& setting) {
  Recipe r = setting;
  r.regime = regime;
  r.seed = seed;
  FitShape(shape, &r);
  r.values = content.values;
  r.exp = r.dtype == DType::kF16 ? HalfExp(content.values, content.exp) : content.exp;
  r.labels = content.labels;
  r.reduction = upstream.reduction;
  r.grads = upstream.grads;
  r.entropy_grads = upstream.entropy_grads;
  r.grad_stride = upstream.stride;
  r.fp32_grads = upstream.fp32;
  r.special = content.special;
  if (!r.temperature_per_row) r.temperature_spread = 1;
  KeepSensible(&r);
  return r;
}

Gen<Recipe> Of(std::string_view regime, const Gen<Shape>& shape, const Ingredients& i) {
  return rc::gen::apply(
      [name = std::string(regime)](uint64_t seed, const Shape& s, const Content& c, const Upstream& u,
                                   const Recipe& b) { return Assemble(name, seed, s, c, u, b); },
      rc::gen::arbitrary<uint64_t>(), shape, i.content, i.upstream, i.setting);
}

// Draws the regime's ingredients, with shapes of the family unless an ingredient has its own; family -1
// means its usual shapes.
Gen<Recipe> OneRegime(const RegimeEntry& entry, int family) {
  std::vector<Gen<Recipe>> ways;
  std::vector<size_t> upto;  // sums of weights
  size_t total = 0;
  const std::vector<Ingredients> all = entry.compose();
  const bool reserved = std::any_of(all.begin(), all.end(), [family](const Ingredients& i) {
    return family >= 0 && i.only_family == family;
  });
  for (const Ingredients& i : all) {
    if (family >= 0 && i.only_family != (reserved ? family : -1)) continue;
    const bool usual = family < 0 || i.own_shape;
    ways.push_back(Of(entry.regime.name, usual ? i.shape : ShapesOfFamily(family), i));
    upto.push_back(total += i.weight);
  }
  const auto pick = [=](size_t x) {
    return ways[static_cast<size_t>(std::upper_bound(upto.begin(), upto.end(), x) - upto.begin())];
  };
  // RapidCheck's size (small at first) and its shrinking have no meaning for a recipe.
  return rc::gen::noShrink(rc::gen::resize(
      rc::kNominalSize, rc::gen::join(rc::gen::map(rc::gen::inRange<size_t>(0, total), pick))));
}

}  // namespace

Gen<Recipe> RecipeGen(std::string_view regime) {
  if (!regime.empty()) return FamilyGen(regime, -1);
  std::vector<Gen<Recipe>> all;
  for (const RegimeEntry& entry : RegimeTable()) all.push_back(OneRegime(entry, -1));
  return rc::gen::noShrink(rc::gen::join(rc::gen::elementOf(all)));
}

Gen<Recipe> LogitsBeyondGen() { return OneRegime(LogitsBeyond(), -1); }

Gen<Recipe> FamilyGen(std::string_view regime, int family) {
  return OneRegime(RegimeTable()[IndexOf(regime)], family);
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/steps.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

constexpr int kMostExp = 100;  // fuzz/recipe/recipe.cc
// Steps never make a shape larger than the shapes of large vocabularies that are drawn.
constexpr int64_t kMostSize = 200'000;

// A child of a larger parent is always cut to the usual cost.
constexpr int64_t kMostFullWeights = 2'000'000, kMostFullLogits = int64_t{1} << 28;

// The second argument of Mix for the choice of full size. The steps use other values.
constexpr uint64_t kFullSize = 100;

int64_t StepSize(int64_t size, uint64_t bits) {
  const int64_t tile = bits & 1 ? 64 : 16;
  const int64_t below = size / tile * tile;
  const int64_t sizes[] = {size + 1, size - 1, size / 2, size * 2, below, below + 1, below + tile - 1};
  return sizes[(bits >> 1) % std::size(sizes)];
}

void StepShape(int64_t* size, uint64_t bits) {
  const int64_t next = StepSize(*size, bits);
  if (next >= 1 && next <= kMostSize) *size = next;
}

int64_t CostOf(const Recipe& r) { return r.n * r.v * r.h; }

// Cuts the axis itself if it alone is expensive: a row costs as much as two thousand multiply-adds, and
// a column costs its exponentials.
void KeepShort(Recipe* r) {
  r->n = std::min(r->n, kStepMaxRows);
  r->v = std::min(r->v, kStepMaxWeights);
}

// Cuts N, then H, as the generators do.
void KeepCheap(int64_t cost, int64_t weights, Recipe* r) {
  if (r->v * r->h > weights) r->h = std::max<int64_t>(1, weights / r->v);
  if (CostOf(*r) > cost) r->n = std::max<int64_t>(1, cost / std::max<int64_t>(1, r->v * r->h));
}

}  // namespace

Recipe Apply(Step step, const Recipe& recipe, const Recipe& other, uint64_t bits) {
  Recipe r = recipe;
  switch (step) {
    case Step::kSeed:
      r.seed = bits;
      break;
    case Step::kExp: {
      constexpr std::array<int, 4> kBy = {-1, 1, -2, 2};
      r.exp = std::clamp(r.exp + kBy[bits % kBy.size()], -kMostExp, kMostExp);
      break;
    }
    case Step::kRows:
      StepShape(&r.n, bits);
      r.n = std::min(r.n, std::max(recipe.n, kStepMaxRows));
      break;
    case Step::kVocab:
      StepShape(&r.v, bits);
      break;
    case Step::kHidden:
      StepShape(&r.h, bits);
      break;
    case Step::kValues:
      r.values = other.values;
      r.exp = other.exp;
      r.special = other.special;
      break;
    case Step::kLabels:
      r.labels = other.labels;
      break;
    case Step::kUpstream:
      r.grads = other.grads;
      r.entropy_grads = other.entropy_grads;
      r.reduction = other.reduction;
      r.grad_stride = other.grad_stride;
      break;
    case Step::kLayout:
      r.hidden_major = other.hidden_major;
      r.pad = other.pad;
      r.label_dtype = other.label_dtype;
      r.fp32_grads = other.fp32_grads;
      break;
  }
  KeepCheap(std::max(kStepMaxCost, CostOf(recipe)), std::max(kStepMaxWeights, recipe.v * recipe.h), &r);
  KeepSensible(&r);
  return r;
}

Recipe TakeStep(const Recipe& recipe, const Recipe& other, uint64_t seed) {
  const uint64_t bits = Mix(seed, 0);
  const int steps = bits % 8 < 5 ? 1 : bits % 8 < 7 ? 2 : 3;
  Recipe r = recipe;
  for (int i = 0; i < steps; ++i) {
    const uint64_t choice = Mix(seed, static_cast<uint64_t>(2 * i + 1)) % kSteps;
    r = Apply(static_cast<Step>(choice), r, other, Mix(seed, static_cast<uint64_t>(2 * i + 2)));
  }
  // Elites with large vocabularies or very many rows have children as large, at a hundred times the
  // usual cost: most of a long campaign's time was spent there.
  // The largest of all would cost seconds or minutes even then.
  const bool dear = recipe.v * recipe.h > kMostFullWeights || recipe.n * recipe.v > kMostFullLogits;
  if (dear || Mix(seed, kFullSize) % 16 != 0) {
    KeepShort(&r);
    KeepCheap(kStepMaxCost, kStepMaxWeights, &r);
  }
  return r;
}

}  // namespace plumbline::fuzz

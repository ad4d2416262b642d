// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/palette.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/within.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, kernel::Reduction;

constexpr int kRowClasses = 5, kVocabClasses = 7, kDepthClasses = 3;
constexpr int64_t kLargeFrom = 9'500, kHugeFrom = 131'072, kDeepFrom = 512;
constexpr int64_t kManyFrom = 1'500, kManyTo = 6'000;  // chunks of the vocabulary, in small cases
constexpr int64_t kMostCost = 4'000'000;  // multiply-adds of a product, where multiples allow it

int64_t Between(int64_t from, int64_t to, uint64_t bits) {  // both included
  return from + static_cast<int64_t>(bits % static_cast<uint64_t>(to - from + 1));
}

int64_t RowsOf(int kind, uint64_t bits) {
  switch (kind) {
    case 0:
      return 1;
    case 1:
      return Between(2, 7, bits);
    case 2:
      return 8 * Between(1, 6, bits);
    case 3:
      return 16 * Between(1, 4, bits >> 1) + ((bits & 1) != 0 ? 1 : -1);
    default:
      return Between(129, 200, bits);
  }
}

int64_t Vocab(int kind, uint64_t bits) {
  const int64_t tiles = int64_t{16} << bits % 5, some = Between(1, 3, bits >> 8) * tiles;
  switch (kind) {
    case 0:
      return Between(2, 15, bits);
    case 1:
      return some - 1;
    case 2:
      return some;
    case 3:
      return some + 1;
    case 4:
      return Between(17, 1'500, bits);
    case 5:
      return Between(kLargeFrom, 40'000, bits);
    default:
      return Between(kHugeFrom, 152'064, bits);
  }
}

int64_t Depth(int kind, uint64_t bits) {
  return kind == 0   ? Between(1, 8, bits)
         : kind == 1 ? Between(9, 96, bits)
                     : Between(kDeepFrom, 2'100, bits);
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int RowClass(int64_t n) { return n <= 1 ? 0 : n < 8 ? 1 : n > 128 ? 4 : n % 8 == 0 ? 2 : 3; }

int VocabClass(int64_t v) {
  if (v < 16) return 0;
  if (v >= kLargeFrom) return v >= kHugeFrom ? 6 : 5;
  const int64_t in_tile = v % 16;
  return in_tile == 15 ? 1 : in_tile == 0 ? 2 : in_tile == 1 ? 3 : 4;
}

int DepthClass(int64_t h) { return h <= 8 ? 0 : h < kDeepFrom ? 1 : 2; }

double Ratio(int64_t a, int64_t b) {
  return std::abs(std::log2(static_cast<double>(a + 1) / static_cast<double>(b + 1)));
}

double Distance(const Recipe& r, const Palette::Shape& shape) {
  const auto differ = [](int a, int b, double weight) { return a == b ? 0 : weight; };
  return differ(VocabClass(r.v), VocabClass(shape.v), 8) + differ(RowClass(r.n), RowClass(shape.n), 4) +
         differ(DepthClass(r.h), DepthClass(shape.h), 4) + Ratio(r.n, shape.n) + Ratio(r.v, shape.v) +
         Ratio(r.h, shape.h);
}

// The options that say which types and strides a kernel sees. Strides beyond 2^31 stay with their case:
// all of an entry's cases would take their time.
constexpr std::array kLayout = {
    &Recipe::pad,           &Recipe::grad_stride,        &Recipe::label_stride,
    &Recipe::offset,        &Recipe::temperature_stride, &Recipe::output_stride,
    &Recipe::gradient_step, &Recipe::single_stride};

// A case of a large vocabulary takes ten times as long as another, and a palette has two of them in
// seven: they are for the cases that were drawn so.
bool OneIsLarge(int64_t drawn, int64_t vocab) { return (drawn < kLargeFrom) != (vocab < kLargeFrom); }

// In how many arguments the two differ that a kernel is compiled for, beside extents and layout.
int Mismatches(const Recipe& a, const Recipe& b) {
  const auto none = [](Grads grads) { return grads == Grads::kNone; };
  return (a.dtype != b.dtype) + (a.label_dtype != b.label_dtype) + (a.reduction != b.reduction) +
         (none(a.grads) != none(b.grads)) + (none(a.entropy_grads) != none(b.entropy_grads));
}

int ExtentClass(int64_t extent) { return extent == 1 ? 0 : extent % 16 == 0 ? 1 : 2; }

bool SameClass(int64_t a, int64_t b) { return ExtentClass(a) == ExtentClass(b); }

uint64_t PowerFrom(int64_t extent) { return std::bit_ceil(static_cast<uint64_t>(extent)); }

double LayoutDistance(const Recipe& a, const Recipe& b) {
  int differ = (a.hidden_major != b.hidden_major) + (a.fp32_grads != b.fp32_grads) + (a.rows != b.rows);
  for (const auto option : kLayout) differ += a.*option != b.*option;
  return 3 * differ;
}

// An upstream gradient that the one lacks and the other has is another kernel.
Grads TakePresence(Grads from, Grads to) {
  return (from == Grads::kNone) == (to == Grads::kNone) ? to : from;
}

void TakeLayout(const Recipe& from, Recipe* to) {
  to->reduction = from.reduction;
  to->grads = TakePresence(from.grads, to->grads);
  to->entropy_grads = TakePresence(from.entropy_grads, to->entropy_grads);
  to->dtype = from.dtype;
  to->label_dtype = from.label_dtype;
  to->hidden_major = from.hidden_major;
  to->fp32_grads = from.fp32_grads;
  to->rows = from.rows;
  for (const auto option : kLayout) to->*option = from.*option;
  KeepSensible(to);
}

}  // namespace

int64_t PaletteSize(double first_call_seconds, double campaign_seconds, int64_t cases) {
  const double size = cases > 0 ? static_cast<double>(cases) / 20
                                : kFirstCallShare * campaign_seconds / first_call_seconds;
  return std::clamp(static_cast<int64_t>(std::min(size, 1e9)), kLeastPalette, kMostPalette);
}

Palette::Palette(uint64_t seed, int64_t size, const Capabilities& can, bool by_class)
    : Palette(seed, size, can, by_class,
              {.logits = std::numeric_limits<int64_t>::max(), .products = kMostCost, .small = false}) {}

Palette Palette::OfSmall(uint64_t seed, int64_t size, const Capabilities& can, int64_t most_logits,
                         int64_t most_products) {
  Palette palette(seed, size, can, false,
                  {.logits = most_logits, .products = most_products, .small = true});
  palette.TakeTurns(can);
  return palette;
}

Palette::Palette(uint64_t seed, int64_t size, const Capabilities& can, bool by_class,
                 const Limits& limits)
    : by_class_(by_class && can.row_alignment <= 1) {
  const auto first = static_cast<int64_t>(Mix(seed, 1) % (kRowClasses * kVocabClasses * kDepthClasses));
  for (int64_t k = first; k < first + size; ++k) {
    const uint64_t bits = Mix(seed, static_cast<uint64_t>(k) + 2);
    const auto vocab_class = static_cast<int>(k % kVocabClasses);
    Recipe r{.seed = bits,
             .n = RowsOf(static_cast<int>(k % kRowClasses), Mix(bits, 1)),
             .v = Vocab(vocab_class, Mix(bits, 2)),
             .h = Depth(static_cast<int>(k % kDepthClasses), Mix(bits, 3))};
    // A large vocabulary is shallow. V and H are chosen for the fewest rows, then N is cut to a cost.
    if (vocab_class >= 5) r.h = std::min<int64_t>(r.h, 8);
    if (limits.small) {
      // Chunks of rows beside chunks of columns.
      if (vocab_class == 0) r.n = RowsOf(kRowClasses - 1, Mix(bits, 1));
      if (vocab_class >= 5) r.v = Between(kManyFrom, std::min(kManyTo, limits.logits), Mix(bits, 2));
      const int64_t before = vocab_class == 0 ? r.n * r.v : r.v;
      r.h = std::clamp<int64_t>(limits.products / before, 1, r.h);
    }
    const int64_t rows = RoundUp(r.n, can.rows_multiple);
    r.n = can.rows_multiple;
    // Rows that cannot be padded need the longest multiples hidden-major and in two bytes an element.
    r.hidden_major = can.hidden_major;
    const auto two_bytes = [](DType dtype) { return kernel::SizeOf(dtype) == 2; };
    const auto narrow = std::ranges::find_if(can.dtypes, two_bytes);
    r.dtype = narrow != can.dtypes.end() ? *narrow : can.dtypes.front();
    r = ShapeWithin(can, r);
    const int64_t most = std::min(limits.products / std::max<int64_t>(1, r.v * r.h),
                                  limits.logits / std::max<int64_t>(1, r.v)) /
                         can.rows_multiple;
    r.n = std::clamp(most * can.rows_multiple, can.rows_multiple, rows);
    shapes_.push_back({r.n, r.v, r.h});
    layouts_.push_back(KeepWithin(can, DrawRecipe(seed, static_cast<uint64_t>(k))));
  }
}

void Palette::TakeTurns(const Capabilities& can) {
  std::vector<Reduction> reduced = can.reductions;
  std::erase(reduced, Reduction::kNone);
  const bool has_none = reduced.size() < can.reductions.size();
  for (size_t i = 0, turn = 0; i < layouts_.size(); ++i, turn = i / can.dtypes.size()) {
    Recipe& r = layouts_[i];
    r.dtype = can.dtypes[i % can.dtypes.size()];
    const bool reduces = !reduced.empty() && (!has_none || turn % 3 == 2);
    r.reduction = reduces ? reduced[i % reduced.size()] : Reduction::kNone;
    if (r.grads == Grads::kNone && r.entropy_grads == Grads::kNone) r.grads = Grads::kRandom;
    r = KeepWithin(can, r);
  }
}

void Palette::TakeExtents(const Shape& shape, Recipe* r) const {
  Shape to = shape;
  if (by_class_) {
    if (r->n > 0 && SameClass(r->n, to.n)) to.n = r->n;
    if (r->v > 0 && SameClass(r->v, to.v) && PowerFrom(r->v) == PowerFrom(to.v)) to.v = r->v;
    if (r->h > 0 && SameClass(r->h, to.h)) to.h = r->h;
    if (CostOf(to.n, to.v, to.h) > kMostGrown) to = shape;
  }
  r->n = to.n;
  r->v = to.v;
  r->h = to.h;
}

void Palette::Place(Recipe* r) const {
  std::vector<std::tuple<int, double, size_t>> order;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const int large = OneIsLarge(r->v, shapes_[i].v) ? 10 : 0;  // more than all mismatches
    order.emplace_back(large + Mismatches(*r, layouts_[i]),
                       LayoutDistance(*r, layouts_[i]) + Distance(*r, shapes_[i]), i);
  }
  const size_t near = std::min<size_t>(3, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(near), order.end());
  const size_t entry = std::get<size_t>(order[Mix(r->seed, 0x7061'6c65) % near]);
  TakeExtents(shapes_[entry], r);
  TakeLayout(layouts_[entry], r);
}

}  // namespace plumbline::fuzz

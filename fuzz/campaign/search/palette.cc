// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/palette.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/within.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr int kRowClasses = 5, kVocabClasses = 7, kDepthClasses = 3;
constexpr int64_t kLargeFrom = 9'500, kHugeFrom = 131'072, kDeepFrom = 512;
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

}  // namespace

int64_t PaletteSize(double first_call_seconds, double campaign_seconds, int64_t cases) {
  const double size = cases > 0 ? static_cast<double>(cases) / 20
                                : kFirstCallShare * campaign_seconds / first_call_seconds;
  return std::clamp(static_cast<int64_t>(std::min(size, 1e9)), kLeastPalette, kMostPalette);
}

Palette::Palette(uint64_t seed, int64_t size, const Capabilities& can) {
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
    const int64_t rows = RoundUp(r.n, can.rows_multiple);
    r.n = can.rows_multiple;
    // Rows that cannot be padded need the longest multiples hidden-major and in two bytes an element.
    r.hidden_major = can.hidden_major;
    const auto two_bytes = [](DType dtype) { return kernel::SizeOf(dtype) == 2; };
    const auto narrow = std::ranges::find_if(can.dtypes, two_bytes);
    r.dtype = narrow != can.dtypes.end() ? *narrow : can.dtypes.front();
    r = ShapeWithin(can, r);
    const int64_t most = kMostCost / std::max<int64_t>(1, r.v * r.h) / can.rows_multiple;
    r.n = std::clamp(most * can.rows_multiple, can.rows_multiple, rows);
    shapes_.push_back({r.n, r.v, r.h});
  }
}

void Palette::Place(Recipe* r) const {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < shapes_.size(); ++i) order.emplace_back(Distance(*r, shapes_[i]), i);
  const size_t near = std::min<size_t>(3, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(near), order.end());
  const Shape& shape = shapes_[order[Mix(r->seed, 0x7061'6c65) % near].second];
  r->n = shape.n;
  r->v = shape.v;
  r->h = shape.h;
}

}  // namespace plumbline::fuzz

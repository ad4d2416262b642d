// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/cost_model.h"

#include "kernel/cuda/product/schedule.h"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {
namespace {

// Costs, in cycles, of backward of n rows and a hidden size of h.
class CostModel {
 public:
  CostModel(const DeviceCosts& costs, int64_t n, int64_t h) : costs_(costs), n_(n), h_(h) {}

  // Returns the cost of v columns in chunks whose d_logits are a product of their own, which overlaps
  // with no other.
  double Computed(int64_t v, int64_t columns) const {
    const auto chunk = [&](int64_t c) {
      const int64_t rounds = CeilDiv(CeilDiv(n_, 256) * CeilDiv(c, 192), costs_.clusters);
      return costs_.tile_cycles_per_depth_block * static_cast<double>(rounds * CeilDiv(h_, 64)) +
             Gradients(c);
    };
    const int64_t whole = v / columns, rest = v % columns;
    return static_cast<double>(whole) * chunk(columns) + (rest > 0 ? chunk(rest) : 0);
  }

  // Returns the cost of columns whose logits were kept. With one buffer every chunk's d_logits are
  // bound by memory; with two, only the first chunk's are, and the others overlap with products.
  double Kept(int64_t columns, const KeptChunks& chunks) const {
    const auto chunk = [&](int64_t own, int64_t next) {
      const double gradients = Gradients(own);
      return chunks.two ? std::max(gradients, Beside(own, next)) : gradients;
    };
    const double first = costs_.memory_cycles_per_element * static_cast<double>(n_) *
                         static_cast<double>(chunks.two ? std::min(chunks.most, columns) : columns);
    const int64_t whole = columns / chunks.most, rest = columns % chunks.most;
    double cost = rest > 0 ? chunk(rest, 0) : 0;
    if (whole > 0) {
      cost +=
          static_cast<double>(whole - 1) * chunk(chunks.most, chunks.most) + chunk(chunks.most, rest);
    }
    return first + cost;
  }

  // Returns the cost of a chunk's two gradients.
  double Gradients(int64_t columns) const { return Gradients(columns, columns); }

  // Returns the cost of the gradient of hidden, from some columns, and of that of the weight of others,
  // where the second product begins during the last round of the first.
  double Gradients(int64_t columns, int64_t weight_columns) const {
    constexpr int64_t kMostTiles = int64_t{1} << 30;
    const int64_t clusters = costs_.clusters, hidden = HiddenUnits(),
                  weight = CeilDiv(weight_columns, 192) * CeilDiv(h_, 256);
    const auto tile = [&](int64_t depth) {
      return costs_.tile_cycles_per_depth_block * static_cast<double>(CeilDiv(depth, 64));
    };
    const double of_hidden = HiddenTile() * tile(columns), of_weight = tile(n_);
    const hopper::Head head = hopper::HeadBeside(
        costs_.clusters, {static_cast<int>(hidden % clusters), static_cast<float>(of_hidden)},
        {static_cast<int>(std::min(weight, kMostTiles)), static_cast<float>(of_weight)});
    const int64_t rest = std::max<int64_t>(weight - int64_t{head.clusters} * head.rounds, 0);
    const auto tiles = [](int64_t count) { return static_cast<double>(count); };
    // The end of a cluster of the head, and of a cluster that grad_hidden occupies longest.
    const double short_end =
        of_hidden * tiles(hidden / clusters) + of_weight * tiles(head.rounds + CeilDiv(rest, clusters));
    const double long_end =
        of_hidden * tiles(CeilDiv(hidden, clusters)) +
        of_weight * tiles(rest / clusters + (rest % clusters > head.clusters ? 1 : 0));
    return std::max(short_end, long_end) + costs_.launch_cycles_per_chunk;
  }

  // Returns the cost of the gradient of weight of v columns in chunks, and of their d_logits: beside
  // the products, or each chunk's in a launch before its product. These read and write 4 bytes an
  // element, two thirds of those that memory_cycles_per_element is of.
  double InPlace(int64_t v, const KeptChunks& chunks) const {
    const auto chunk = [&](int64_t c) {
      const int64_t tiles = CeilDiv(c, 192) * CeilDiv(h_, 256);
      const double product = costs_.tile_cycles_per_depth_block *
                             static_cast<double>(CeilDiv(tiles, costs_.clusters) * CeilDiv(n_, 64));
      return (chunks.two ? std::max(product, 2 * IdleWarps(tiles, c)) : product + DLogitsAlone(c)) +
             costs_.launch_cycles_in_place * (chunks.two ? 1 : 2);
    };
    const int64_t whole = v / chunks.most, rest = v % chunks.most;
    return (chunks.two ? DLogitsAlone(std::min(chunks.most, v)) : 0) +
           static_cast<double>(whole) * chunk(chunks.most) + (rest > 0 ? chunk(rest) : 0);
  }

  // Returns the cost of both gradients of v columns in place, where the gradient of weight of the last
  // `behind` columns, whole chunks but for the last, is one product behind grad_hidden.
  double InPlaceWithEnd(int64_t v, const KeptChunks& chunks, int64_t behind) const {
    const int64_t beside = chunks.two && v > behind ? std::min(chunks.most, behind) : 0;
    return (v > behind ? InPlace(v - behind, chunks) : 0) + DLogitsAlone(behind - beside) +
           costs_.launch_cycles_in_place * static_cast<double>(CeilDiv(behind - beside, chunks.most)) +
           Gradients(v, behind);
  }

  // Returns the cost of Gradients where `count` stretches of grad_hidden at a time are computed
  // together, and their sums added.
  double GradientsApart(int64_t columns, int64_t stretch, int64_t count) const {
    const int64_t stretches = CeilDiv(columns, stretch), units = HiddenUnits();
    const int64_t rounds = stretches / count * CeilDiv(units * count, costs_.clusters) +
                           CeilDiv(units * (stretches % count), costs_.clusters);
    const int64_t of_weight = CeilDiv(CeilDiv(columns, 192) * CeilDiv(h_, 256), costs_.clusters);
    const double blocks = HiddenTile() * static_cast<double>(rounds * CeilDiv(stretch, 64)) +
                          static_cast<double>(of_weight * CeilDiv(n_, 64));
    const double bytes = 8 * static_cast<double>(n_) * static_cast<double>(h_ * stretches);
    return costs_.tile_cycles_per_depth_block * blocks + bytes / costs_.memory_bytes_per_cycle +
           costs_.launch_cycles_per_chunk * static_cast<double>(CeilDiv(stretches, count));
  }

 private:
  // Return the number of clusters' tiles of grad_hidden, and the time of one over that of 192 rows.
  int64_t HiddenUnits() const { return CeilDiv(n_, hopper::GradHiddenRows(n_)) * CeilDiv(h_, 256); }
  double HiddenTile() const { return hopper::GradHiddenRows(n_) / 192.0; }

  // Returns the cost of d_logits in place of so many columns in launches of their own.
  double DLogitsAlone(int64_t columns) const {
    return costs_.memory_cycles_per_element * 2 / 3 * static_cast<double>(n_) *
           static_cast<double>(columns);
  }

  // Returns the cost of computing d_logits of `columns` columns on the warps left idle by the two
  // gradient products of another chunk, which has `beside` columns: half of them during each product.
  double Beside(int64_t beside, int64_t columns) const {
    return IdleWarps(HiddenUnits(), columns) +
           IdleWarps(CeilDiv(beside, 192) * CeilDiv(h_, 256), columns);
  }
  // Returns the cost of half of these beside a product of so many tiles. Only multiprocessors that have
  // a tile have such warps.
  double IdleWarps(int64_t tiles, int64_t columns) const {
    const double slower = static_cast<double>(costs_.clusters) /
                          static_cast<double>(std::clamp<int64_t>(tiles, 1, costs_.clusters));
    return costs_.idle_warps_cycles_per_element / 2 * static_cast<double>(n_) *
           static_cast<double>(columns) * slower;
  }

  const DeviceCosts& costs_;
  const int64_t n_, h_;
};

// Calls take(columns) for chunks of at most `most` columns, the longest first: whole stretches, down to
// half of most, or all v columns; else equal pieces of a stretch, multiples of `step`.
template <class Take>
void EachChunk(int64_t v, int64_t stretch, int64_t step, int64_t most, const Take& take) {
  if (most < stretch) {
    const int64_t pieces = CeilDiv(stretch, std::max(most / step * step, step));
    take(std::min(RoundUp(CeilDiv(stretch, pieces), step), RoundUp(std::max<int64_t>(v, 1), step)));
    return;
  }
  if (v <= stretch) {
    take(std::max(RoundUp(v, step), step));
    return;
  }
  const int64_t longest = most >= RoundUp(v, step) ? CeilDiv(v, stretch) : most / stretch;
  for (int64_t count = longest; count >= std::max<int64_t>(longest / 2, 1); --count)
    take(std::min(count * stretch, RoundUp(v, step)));
}

}  // namespace

int64_t StretchesAtOnce(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                        int64_t stretch, int64_t most) {
  const CostModel model(costs, n, h);
  int64_t best = 1;
  double least = model.Gradients(columns);
  for (int64_t count = 2; count <= std::min(CeilDiv(columns, stretch), most); ++count) {
    const double cost = model.GradientsApart(columns, stretch, count);
    if (33 * cost > 32 * least) continue;
    least = cost;
    best = count;
  }
  return best;
}

int64_t BestChunk(const DeviceCosts& costs, int64_t n, int64_t h, int64_t v, int64_t stretch,
                  int64_t most) {
  const CostModel model(costs, n, h);
  int64_t best = 0;
  double least = 0;
  EachChunk(v, stretch, kColumnStep, most, [&](int64_t c) {
    const double cost = model.Computed(v, c);
    if (best == 0 || cost < least) {
      least = cost;
      best = c;
    }
  });
  return best;
}

KeptChunks BestInPlaceChunks(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                             int64_t most) {
  const CostModel model(costs, n, h);
  most = std::max(std::min(most, RoundUp(columns, kTileStep)) / kTileStep * kTileStep, kTileStep);
  KeptChunks best;
  double least = 0;
  for (const bool beside : {true, false}) {
    for (int64_t c = most; c >= std::max(most / 2, kTileStep); c -= kTileStep) {
      const double cost = model.InPlace(columns, {c, beside});
      if (best.most == 0 || cost < least) {
        least = cost;
        best = {c, beside};
      }
    }
  }
  return best;
}

int64_t BestEnd(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                const KeptChunks& chunks) {
  constexpr int64_t kMostChunks = 8, kLongestProducts = 2048;
  const CostModel model(costs, n, h);
  const int64_t all = CeilDiv(columns, chunks.most), most = h <= kLongestProducts ? kMostChunks : 1;
  int64_t best = 0;
  double least = 0;
  for (int64_t count = 1; count <= std::min(all, most); ++count) {
    const int64_t behind = columns - (all - count) * chunks.most;
    const double cost = model.InPlaceWithEnd(columns, chunks, behind);
    if (count == 1 || cost < least) {
      least = cost;
      best = behind;
    }
  }
  return best;
}

KeptChunks BestKeptChunks(const DeviceCosts& costs, int64_t n, int64_t h, int64_t columns,
                          int64_t stretch, int64_t single, int64_t each) {
  const CostModel model(costs, n, h);
  KeptChunks best;
  double least = 0;
  const auto consider = [&](const KeptChunks& chunks) {
    const double cost = model.Kept(columns, chunks);
    if (best.most == 0 || cost < least) {
      least = cost;
      best = chunks;
    }
  };
  EachChunk(columns, stretch, kColumnStep, single, [&](int64_t c) { consider({c, false}); });
  if (each >= kKeptStep)
    EachChunk(columns, stretch, kKeptStep, each, [&](int64_t c) { consider({c, true}); });
  return best;
}

}  // namespace plumbline::kernel::cuda

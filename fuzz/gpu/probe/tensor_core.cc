// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/gpu/probe/operands.h"
#include "fuzz/gpu/probe/probe.h"
#include "kernel/dtype.h"
#include "kernel/host/tensor_core.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr int64_t kTile = 16;     // rows and columns of a tile, and pairs drawn for it
constexpr int64_t kBatch = 4096;  // tiles that go to the device together
constexpr int kProductDepths[] = {16, 32, 48, 96};
static_assert(kTile == kernel::host::kPanel);

uint16_t Pattern(DType dtype, float x) {
  return dtype == DType::kBf16 ? kernel::ToBFloat16(x).bits : kernel::ToFloat16(x).bits;
}

// Draws one tile: its operands as the device reads them, and the model's results.
void DrawTile(DType dtype, DataKind kind, int depth, uint64_t seed, uint16_t* a, uint16_t* b,
              float* want) {
  OperandRandom random(seed);
  const auto width = static_cast<size_t>(depth);
  std::vector<float> rows(kTile * width), column(width), panels(kTile * width + 16);
  // The model reads [depth][16] on a cache line.
  auto* const panel =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(panels.data()) + 63) & ~uintptr_t{63});
  for (size_t i = 0; i < kTile; ++i) {
    float* const row = rows.data() + i * width;
    DrawOperands(dtype, kind, depth, &random, row, column.data());
    for (size_t k = 0; k < width; ++k) {
      panel[k * kTile + i] = column[k];
      a[i * width + k] = Pattern(dtype, row[k]);
      b[i * width + k] = Pattern(dtype, column[k]);
    }
  }
  kernel::host::TensorCoreProducts({.a = rows.data(),
                                    .a_stride = depth,
                                    .b = panel,
                                    .depth = depth,
                                    .rows = kTile,
                                    .panels = 1,
                                    .c = want,
                                    .c_stride = kTile,
                                    .accumulate = false},
                                   dtype, 0);
}

bool SameBits(float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); }

}  // namespace

ProbeLine ProbeTensorCore(std::string_view what, bool fp16, int64_t pairs, uint64_t seed,
                          const TileProducts& products) {
  const DType dtype = fp16 ? DType::kF16 : DType::kBf16;
  ProbeLine line;
  line.what = what;
  line.claim = "the model's bits";
  std::string example;
  int64_t drawn = 0;
  for (int batch = 0; drawn < pairs; ++batch) {
    // A wgmma needs a multiple of 4 tiles.
    const int64_t tiles = std::min(kBatch, (pairs - drawn + 4 * kTile - 1) / (4 * kTile) * 4);
    const int depth = kProductDepths[batch % std::ssize(kProductDepths)];
    const auto operands = static_cast<size_t>(tiles * kTile * depth);
    const auto results = static_cast<size_t>(tiles * kTile * kTile);
    std::vector<uint16_t> a(operands), b(operands);
    std::vector<float> want(results), got(results);
    const auto kind = [](int64_t tile) { return static_cast<DataKind>(tile % kDataKinds); };

    std::atomic<int64_t> next{0};
    const auto draw = [&] {
      for (int64_t tile; (tile = next.fetch_add(1)) < tiles;) {
        const auto at = static_cast<size_t>(tile * kTile * depth);
        DrawTile(dtype, kind(tile), depth, Mix(seed + static_cast<uint64_t>(batch), tile + 0ul),
                 a.data() + at, b.data() + at, want.data() + tile * kTile * kTile);
      }
    };
    {
      std::vector<std::jthread> pool;
      for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) pool.emplace_back(draw);
      draw();
    }
    products(fp16, tiles, depth, a.data(), b.data(), got.data());

    for (size_t i = 0; i < results; ++i) {
      if (SameBits(got[i], want[i])) continue;
      if (line.wrong++ > 0) continue;
      const auto tile = static_cast<int64_t>(i) / (kTile * kTile);
      example =
          Text("; the first, %d products, %s: got %08x, the model %08x", depth, NameOf(kind(tile)),
               std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]));
    }
    drawn += tiles * kTile;
    line.samples += tiles * kTile * kTile;
  }
  line.measured = Text("%lld of %lld dot products differ", static_cast<long long>(line.wrong),
                       static_cast<long long>(line.samples)) +
                  example;
  line.kept = line.wrong == 0 && line.samples > 0 ? Kept::kYes : Kept::kNo;
  return line;
}

}  // namespace plumbline::fuzz

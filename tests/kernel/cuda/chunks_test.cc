// SPDX-License-Identifier: Apache-2.0
//
// The chunks into which backward cuts the vocabulary where logits are kept. Host arithmetic: needs no
// GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>

#include "kernel/cuda/layout/workspace.h"

namespace plumbline::kernel::cuda {
namespace {

Layout Of(int64_t n, int64_t h, int64_t v, const Keeping& keeping, int clusters = kH200Costs.clusters,
          bool of_hidden = true) {
  Problem problem;
  problem.hidden = {nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  problem.weight = {nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  Results results;
  if (of_hidden) results.grad_hidden = Tensor{nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  results.grad_weight = Tensor{nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  const std::optional<Layout> layout = MakeLayout(problem, results, keeping, clusters);
  EXPECT_TRUE(layout.has_value());
  return layout.value_or(Layout{});
}

Layout Of(int64_t n, int64_t h, int64_t v, size_t limit, int clusters = kH200Costs.clusters,
          bool consumed = false, bool of_hidden = true, int64_t chunk_columns = 0) {
  return Of(n, h, v, {.bytes = limit, .consumed = consumed, .chunk_columns = chunk_columns}, clusters,
            of_hidden);
}

// Fails if a chunk of whole stretches ends within one, also if it begins within one, or if a shorter
// chunk goes past the end of its stretch.
TEST(CudaChunks, EndWithStretches) {
  EXPECT_EQ(EndOfChunk(0, 1536, 768), 1536);
  EXPECT_EQ(EndOfChunk(1536, 1536, 768), 3072);
  EXPECT_EQ(EndOfChunk(800, 1536, 768), 2304);
  EXPECT_EQ(EndOfChunk(0, 768, 768), 768);
  EXPECT_EQ(EndOfChunk(767, 768, 768), 768);
  EXPECT_EQ(EndOfChunk(768, 384, 1536), 1152);
  EXPECT_EQ(EndOfChunk(1300, 384, 1536), 1536);
}

// Fails if a chunk begins inside a tile, if it is neither whole stretches nor less than one, if chunks
// take more memory than is stated, if the d_logits of two chunks overlap, or if a piece of a stretch
// has no memory for its sums.
TEST(CudaKeptChunks, KeepToWhatIsSaid) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  for (const int64_t n : {1, 77, 512, 2048, 8192, 40000, 300000, 1000000}) {
    for (const int64_t h : {8, 512, 1024, 4096}) {
      for (const int64_t v : {1, 385, 32000, 151936}) {
        for (const size_t limit : {size_t{1} << 20, size_t{1} << 30, ~size_t{0}}) {
          const Layout layout = Of(n, h, v, limit);
          const BackwardLayout& b = layout.backward;
          const KeptChunks& kept = b.kept;
          SCOPED_TRACE(testing::Message() << n << " x " << h << " x " << v << " limit " << limit);
          EXPECT_GE(kept.most, 384);
          bool pieces = layout.first_kept < v && layout.first_kept % layout.stretch != 0;
          for (const int64_t chunk : {kept.most, b.direct_chunk, b.packed_chunk}) {
            EXPECT_EQ(chunk % 384, 0);
            EXPECT_TRUE(chunk < layout.stretch || chunk % layout.stretch == 0 ||
                        chunk >= v - layout.first_kept)
                << chunk;
            pieces = pieces || chunk < std::min(layout.stretch, v);
          }
          EXPECT_EQ(b.has_sums, pieces);
          if (!kept.two) {
            EXPECT_EQ(b.other_kept, b.d_logits);
          }
          const int64_t one = b.padded_rows * kept.most * 2, all = kept.two ? 2 * one : one;
          EXPECT_LE(static_cast<int64_t>(b.d_logits) + all, static_cast<int64_t>(b.bytes));
          EXPECT_TRUE(!kept.two || b.other_kept >= b.d_logits + static_cast<size_t>(one));
          const int64_t quarter = b.padded_rows * (v - layout.first_kept);
          EXPECT_LE(all, std::max(std::min(quarter, kGiB) * 5 / 4, b.padded_rows * b.direct_chunk * 2));
        }
      }
    }
  }
}

// Two buffers for d_logits, so that one chunk's are made beside another's products. Fails if the costs
// by which this is chosen no longer tell these problems apart.
TEST(CudaKeptChunks, TwoOfThemWhereProductsAreLong) {
  EXPECT_TRUE(Of(8192, 4096, 151936, ~size_t{0}).backward.kept.two);
  EXPECT_TRUE(Of(8192, 1024, 151936, ~size_t{0}).backward.kept.two);
  EXPECT_FALSE(Of(8192, 64, 151936, ~size_t{0}).backward.kept.two);
  EXPECT_FALSE(Of(8192, 4096, 151936, 0).backward.kept.two);
  EXPECT_FALSE(Of(64, 4096, 151936, ~size_t{0}).backward.kept.two);
}

// The chunks of an H200. Fails if a change of the cost model changes one, and so the speed measured.
TEST(CudaKeptChunks, AreThoseThatWereMeasured) {
  struct Want {
    int64_t n, h, v, direct, packed, kept, buffers;
  };
  for (const Want& want : {Want{8192, 4096, 151936, 14976, 9984, 24960, 2},
                           {8192, 4096, 131072, 12672, 8448, 21120, 2},
                           {8192, 2048, 131072, 12672, 12672, 21120, 2},
                           {8192, 1024, 151936, 14976, 14976, 14976, 2},
                           {8192, 2304, 256000, 16128, 8064, 24192, 2},
                           {4096, 7168, 129280, 25344, 8448, 25344, 2},
                           {32768, 4096, 131072, 12672, 8448, 8448, 2},
                           {128, 4096, 151936, 152064, 9984, 152064, 1},
                           {3072, 1152, 60000, 34560, 32640, 15360, 2},
                           {700, 512, 60000, 60288, 60288, 60288, 1}}) {
    const BackwardLayout b = Of(want.n, want.h, want.v, ~size_t{0}).backward;
    EXPECT_EQ((std::array{b.direct_chunk, b.packed_chunk, b.kept.most, b.kept.two ? int64_t{2} : 1}),
              (std::array{want.direct, want.packed, want.kept, want.buffers}))
        << want.n << " x " << want.h << " x " << want.v;
  }
}

// Fails if a chunk in place reaches past the exponents that have been read, or begins within a line, if
// it has memory of its own, if totals lie where they do not fit or other sums are needed, if a state
// depends on which gradients are asked for, or if a stretch that has begun before the first kept
// column, or that a packed weight is multiplied by in pieces, has no memory for its sums.
TEST(CudaInPlace, KeepsToWhatIsSaid) {
  int behind = 0;
  for (const int64_t n : {1, 77, 2048, 8192, 300000}) {
    for (const int64_t h : {8, 1024, 4096}) {
      for (const int64_t v : {1, 385, 32000, 151936}) {
        for (const size_t limit : {size_t{1} << 20, size_t{1} << 30, ~size_t{0}}) {
          for (const int clusters : {kH200Costs.clusters, 39}) {
            const Layout layout = Of(n, h, v, limit, clusters, true);
            const BackwardLayout& b = layout.backward;
            SCOPED_TRACE(testing::Message() << n << " x " << h << " x " << v << " limit " << limit);
            ASSERT_EQ(b.ahead > 0, layout.first_kept < v && !b.sweeps);
            if (b.ahead == 0) continue;
            EXPECT_GT(b.kept.most, 0);
            EXPECT_LE(b.kept.most, b.ahead);
            EXPECT_EQ(b.kept.most % 64 + b.ahead % 64, 0);
            EXPECT_GT(b.end_columns, 0);
            EXPECT_LE(b.end_columns, v - layout.first_kept);
            EXPECT_EQ((v - layout.first_kept - b.end_columns) % b.kept.most, 0);
            EXPECT_LE(b.ahead, std::max<int64_t>((v - layout.first_kept) / 8, 192));
            const BackwardLayout weight = Of(n, h, v, limit, clusters, true, false).backward;
            EXPECT_EQ(weight.ahead, b.ahead);
            EXPECT_LE(weight.bytes, b.bytes);
            behind += b.totals_behind ? 1 : 0;
            if (b.totals_behind) {
              EXPECT_GE(b.ahead, 2 * layout.packed_ld);
              EXPECT_EQ(layout.first_kept, 0);
              EXPECT_EQ(b.at_once, 1);
              EXPECT_FALSE(b.has_sums);
            }
            const bool begun = layout.first_kept % layout.stretch != 0;
            EXPECT_TRUE(b.has_sums || (!begun && b.packed_chunk >= std::min(layout.stretch, v)));
            if (layout.first_kept == 0) {
              EXPECT_EQ(b.d_logits, b.packed_weight);
              EXPECT_LE(b.packed_chunk, layout.stretch);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(behind, 10);
}

// The chunks in place of an H200, how far ahead d_logits lie, whether grad_hidden's totals lie behind
// them, and how many columns have the last product of grad_weight. Fails if a change of the cost model
// changes one, and so the speed.
TEST(CudaInPlace, AreThoseThatAreMeant) {
  struct Want {
    int64_t n, h, v, most, beside, ahead, behind, end;
  };
  for (const Want& want : {Want{8192, 4096, 151936, 6336, 1, 8192, 1, 6208},
                           {8192, 4096, 131072, 6336, 1, 8192, 1, 4352},
                           {8192, 4096, 128256, 6336, 1, 8192, 1, 1536},
                           {8192, 2048, 131072, 12672, 1, 12672, 1, 17024},
                           {8192, 2048, 128256, 12672, 1, 12672, 1, 26880},
                           {8192, 1024, 151936, 12672, 0, 12672, 1, 101248},
                           {8192, 3584, 152064, 12672, 1, 12672, 1, 12672},
                           {8192, 2304, 256000, 12672, 1, 12672, 1, 2560},
                           {4096, 7168, 129280, 12672, 1, 14336, 1, 2560},
                           {32768, 4096, 131072, 6336, 1, 8192, 1, 4352},
                           {8192, 4096, 32000, 3072, 1, 3072, 0, 1280},
                           {129, 4096, 151936, 17280, 1, 17280, 0, 13696}}) {
    const BackwardLayout b = Of(want.n, want.h, want.v, ~size_t{0}, kH200Costs.clusters, true).backward;
    EXPECT_EQ((std::array{b.kept.most, int64_t{b.kept.two}, b.ahead, int64_t{b.totals_behind},
                          b.end_columns}),
              (std::array{want.most, want.beside, want.ahead, want.behind, want.end}))
        << want.n << " x " << want.h << " x " << want.v;
  }
}

// Fails if other rows, hidden sizes or dtypes than a sweep over weight takes have the layout of one, or
// if it computes fewer stretches at once than 128 MiB of sums hold.
TEST(CudaSweep, IsForFewRows) {
  struct Want {
    int64_t n, h, v;
    bool sweeps;
    int64_t at_once;
  };
  for (const Want& want : {Want{128, 4096, 151936, true, 31},
                           {1, 512, 1, true, 1},
                           {128, 16384, 151936, true, 16},
                           {100, 1536, 12289, true, 17},
                           {129, 4096, 151936, false, 0},
                           {128, 4352, 151936, false, 0},
                           {64, 256, 1000, false, 0}}) {
    for (const bool consumed : {false, true}) {
      const BackwardLayout b =
          Of(want.n, want.h, want.v, ~size_t{0}, kH200Costs.clusters, consumed).backward;
      SCOPED_TRACE(testing::Message() << want.n << " x " << want.h << " x " << want.v);
      EXPECT_EQ(b.sweeps, want.sweeps);
      if (!want.sweeps) continue;
      EXPECT_EQ(b.at_once, want.at_once);
      EXPECT_EQ(b.ahead, 0);
      EXPECT_FALSE(b.kept.two);
    }
  }
}

// Shortened chunks are for small problems what memory makes of large ones. Fails if a small problem
// does not come to several chunks, to two buffers, to d_logits beside products in place, or to totals
// behind d_logits; if stretches are then computed together; if a chunk is no piece of a stretch and no
// whole ones, or has no memory; or if the device's multiprocessors matter.
TEST(CudaShortChunks, DivideSmallProblemsAsLargeOnes) {
  int several = 0, two = 0, behind = 0, pieces = 0;
  for (const int64_t n : {1, 77, 300}) {
    for (const int64_t h : {8, 33, 512}) {
      for (const int64_t v : {1, 385, 900, 2003, 13000}) {
        for (const size_t limit : {size_t{0}, static_cast<size_t>(n * v), ~size_t{0}}) {
          for (const int64_t most : {384, 768}) {
            for (const bool consumed : {false, true}) {
              SCOPED_TRACE(testing::Message() << n << " x " << h << " x " << v << " limit " << limit
                                              << " chunk " << most << " " << consumed);
              const Layout layout = Of(n, h, v, limit, kH200Costs.clusters, consumed, true, most);
              const Layout other = Of(n, h, v, limit, 39, consumed, true, most);
              const BackwardLayout& b = layout.backward;
              EXPECT_EQ(layout.first_kept, Of(n, h, v, limit).first_kept);
              EXPECT_EQ(other.workspace_bytes, layout.workspace_bytes);
              EXPECT_EQ(other.backward.kept.most, b.kept.most);
              if (!b.sweeps) {
                EXPECT_EQ(b.at_once, 1);
              }
              bool shorter = layout.first_kept < v && layout.first_kept % layout.stretch != 0;
              for (const int64_t chunk : {b.direct_chunk, b.packed_chunk}) {
                EXPECT_GT(chunk, 0);
                EXPECT_LE(chunk, most);
                EXPECT_EQ(chunk % 384, 0);
                EXPECT_TRUE(chunk < layout.stretch || chunk % layout.stretch == 0 || chunk >= v);
                shorter = shorter || chunk < std::min(layout.stretch, v);
              }
              EXPECT_TRUE(!shorter || b.has_sums);
              const bool keeps = layout.first_kept < v;
              if (b.ahead > 0) {
                EXPECT_LE(b.kept.most, b.ahead);
                EXPECT_LE(b.kept.most, most);
                EXPECT_TRUE(b.kept.two);
              } else if (keeps && b.kept.two) {
                const auto one = static_cast<size_t>(b.padded_rows * b.kept.most * 2);
                EXPECT_GE(b.other_kept, b.d_logits + one);
                EXPECT_LE(b.other_kept + one, b.bytes);
              }
              several += v > b.direct_chunk ? 1 : 0;
              two += keeps && b.ahead == 0 && b.kept.two && v - layout.first_kept > b.kept.most ? 1 : 0;
              behind += b.totals_behind ? 1 : 0;
              pieces += shorter ? 1 : 0;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(several, 100);
  EXPECT_GT(two, 20);
  EXPECT_GT(behind, 10);
  EXPECT_GT(pieces, 20);
}

// A device with other multiprocessors divides otherwise, in the same memory. Fails if a size or a saved
// column depends on the device, if a chunk outgrows its memory, or if the number of clusters is not
// used.
TEST(CudaKeptChunks, OfAnotherDeviceHaveTheSameMemory) {
  int other = 0;
  for (const int clusters : {1, 7, 39, 57, 72}) {
    for (const int64_t n : {0, 1, 700, 8192, 40000}) {
      for (const int64_t h : {8, 1024, 4096}) {
        for (const int64_t v : {1, 32000, 151936, 262144}) {
          for (const size_t limit : {size_t{0}, size_t{800} << 20, size_t{1} << 30, ~size_t{0}}) {
            const Layout was = Of(n, h, v, limit), is = Of(n, h, v, limit, clusters);
            const BackwardLayout &a = was.backward, &b = is.backward;
            SCOPED_TRACE(testing::Message()
                         << clusters << ": " << n << " x " << h << " x " << v << " limit " << limit);
            EXPECT_EQ(is.workspace_bytes, was.workspace_bytes);
            EXPECT_EQ(is.saved_bytes, was.saved_bytes);
            EXPECT_EQ(is.first_kept, was.first_kept);
            EXPECT_EQ(b.d_logits, a.d_logits);
            EXPECT_EQ(b.packed_weight, a.packed_weight);
            EXPECT_LE(b.direct_chunk, a.direct_chunk);
            EXPECT_LE(b.packed_chunk, a.packed_chunk);
            EXPECT_LE(b.kept.most * (b.kept.two ? 2 : 1), a.kept.most * (a.kept.two ? 2 : 1));
            EXPECT_GE(b.kept.most, 384);
            EXPECT_EQ(b.kept.most % 384 + b.direct_chunk % 384, 0);
            EXPECT_TRUE(a.direct_sums || (b.kept.most >= std::min(is.stretch, v) &&
                                          b.direct_chunk >= std::min(is.stretch, v)));
            other += b.direct_chunk != a.direct_chunk || b.kept.most != a.kept.most ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(other, 100);
}

// More problems than are remembered, each unlike the first in one thing
// alone. Fails if a remembered layout is taken for that of another problem.
TEST(CudaLayout, RememberedIsThatOfTheProblem) {
  const auto sizes = [](const Layout& l) {
    return std::array{static_cast<int64_t>(l.workspace_bytes),
                      static_cast<int64_t>(l.saved_bytes),
                      l.first_kept,
                      l.packed_ld,
                      l.backward.direct_chunk,
                      l.backward.kept.most,
                      int64_t{l.planes}};
  };
  const ConstTensor hidden = {nullptr, DType::kBf16, 2, {8192, 1024}, {1024, 1}};
  const ConstTensor weight = {nullptr, DType::kBf16, 2, {151936, 1024}, {1024, 1}};
  for (int i = 0; i < 40; ++i) {
    Problem problem;
    problem.hidden = hidden;
    problem.weight = weight;
    Results results;
    size_t limit = 0;
    KeptForm form = KeptForm::kDefault;
    bool consumed = false;
    int clusters = kH200Costs.clusters;
    const int what = i % 20 % 10, by = i % 20 / 10;
    if (what == 1) problem.hidden.shape[0] -= 4096 + by;
    if (what == 2) problem.hidden.shape[1] = problem.weight.shape[1] = 2048 + by;
    if (what == 3) problem.weight.shape[0] -= 5000 + by;
    if (what == 4) problem.hidden.dtype = DType::kF32;
    if (what == 5) limit = size_t{1} << (30 + by);
    if (what == 6) clusters = 39 + by;
    if (what == 9) limit = size_t{1} << (30 + by), form = KeptForm::kLogits;
    if (what == 0 && by == 1) limit = size_t{1} << 30, consumed = true;
    if (what != 7) results.grad_weight = Tensor{};
    if (what == 8) results.grad_hidden = Tensor{};
    std::array<int64_t, 7> made{};
    std::thread([&] {  // remembers nothing yet
      made = sizes(*MakeLayout(problem, results, {limit, form, consumed}, clusters));
    })
        .join();
    EXPECT_EQ(sizes(*MakeLayout(problem, results, {limit, form, consumed}, clusters)), made) << i;
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda

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

Layout Of(int64_t n, int64_t h, int64_t v, size_t limit, int clusters = kH200Costs.clusters) {
  Problem problem;
  problem.hidden = {nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  problem.weight = {nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  Results results;
  results.grad_hidden = Tensor{nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  results.grad_weight = Tensor{nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  const std::optional<Layout> layout = MakeLayout(problem, results, limit, clusters);
  EXPECT_TRUE(layout.has_value());
  return layout.value_or(Layout{});
}

// Fails if a chunk is not twice as long as the one before, up to the longest.
TEST(CudaKeptChunks, GrowUpToTheLongest) {
  const KeptChunks chunks = {.first = 384, .most = 1152, .two = true};
  int64_t before = 0;
  for (const int64_t want : {384, 768, 1152, 1152}) {
    EXPECT_EQ(chunks.Columns(before), want) << before;
    before += want;
  }
}

// Fails if a chunk begins inside a tile, if chunks do not grow, if they take more memory than is
// stated, or if the d_logits of two chunks overlap.
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
          EXPECT_GE(kept.first, 384);
          EXPECT_LE(kept.first, kept.most);
          EXPECT_EQ(kept.first % 384 + kept.most % 384, 0);
          if (!kept.two) {
            EXPECT_EQ(kept.first, kept.most);
            EXPECT_EQ(b.other_kept, b.d_logits);
          }
          const int64_t one = b.padded_rows * kept.most * 2, all = kept.two ? 2 * one : one;
          EXPECT_LE(static_cast<int64_t>(b.d_logits) + all, static_cast<int64_t>(b.bytes));
          EXPECT_TRUE(!kept.two || b.other_kept >= b.d_logits + static_cast<size_t>(one));
          const int64_t quarter = b.padded_rows * (v - layout.first_kept);
          EXPECT_LE(all, std::max(std::min(quarter, kGiB), b.padded_rows * b.direct_chunk * 2));
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
  EXPECT_LT(Of(8192, 4096, 151936, ~size_t{0}).backward.kept.first,
            Of(8192, 4096, 151936, ~size_t{0}).backward.kept.most);
  EXPECT_FALSE(Of(8192, 64, 151936, ~size_t{0}).backward.kept.two);
  EXPECT_FALSE(Of(8192, 4096, 151936, 0).backward.kept.two);
  EXPECT_FALSE(Of(64, 4096, 151936, ~size_t{0}).backward.kept.two);
}

// The chunks of an H200. Fails if a change of the cost model changes one, and so the speed measured.
TEST(CudaKeptChunks, AreThoseThatWereMeasured) {
  struct Want {
    int64_t n, h, v, direct, packed, first, most;
  };
  for (const Want& want : {Want{8192, 4096, 151936, 12672, 10368, 8448, 32256},
                           {8192, 4096, 131072, 14976, 10368, 7680, 30720},
                           {8192, 2048, 131072, 13440, 10368, 13056, 25344},
                           {8192, 1024, 151936, 14976, 10752, 25344, 25344},
                           {8192, 2304, 256000, 15744, 9984, 8448, 31488},
                           {4096, 7168, 129280, 29184, 10752, 6912, 25344},
                           {32768, 4096, 131072, 11520, 9984, 2304, 6912},
                           {128, 4096, 151936, 152064, 25344, 152064, 152064},
                           {700, 512, 60000, 60288, 60288, 6912, 13824}}) {
    const BackwardLayout b = Of(want.n, want.h, want.v, ~size_t{0}).backward;
    EXPECT_EQ((std::array{b.direct_chunk, b.packed_chunk, b.kept.first, b.kept.most}),
              (std::array{want.direct, want.packed, want.first, want.most}))
        << want.n << " x " << want.h << " x " << want.v;
  }
}

// A device with other multiprocessors divides otherwise, in the same memory. Fails if a size or a saved
// column depends on the device, if a chunk outgrows its memory, or if the number of clusters is not
// used.
TEST(CudaKeptChunks, OfAnotherDeviceHaveTheSameMemory) {
  int other = 0;
  for (const int clusters : {1, 7, 39, 57, 72}) {
    for (const int64_t n : {0, 1, 700, 8192, 40000}) {
      for (const int64_t h : {8, 1024, 4096}) {
        for (const int64_t v : {1, 32000, 151936}) {
          for (const size_t limit : {size_t{0}, size_t{1} << 30, ~size_t{0}}) {
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
            EXPECT_GE(b.kept.first, 384);
            EXPECT_EQ(b.kept.first % 384 + b.kept.most % 384 + b.direct_chunk % 384, 0);
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
    int clusters = kH200Costs.clusters;
    const int what = i % 20 % 10, by = i % 20 / 10;
    if (what == 1) problem.hidden.shape[0] -= 4096 + by;
    if (what == 2) problem.hidden.shape[1] = problem.weight.shape[1] = 2048 + by;
    if (what == 3) problem.weight.shape[0] -= 5000 + by;
    if (what == 4) problem.hidden.dtype = DType::kF32;
    if (what == 5) limit = size_t{1} << (30 + by);
    if (what == 6) clusters = 39 + by;
    if (what != 7) results.grad_weight = Tensor{};
    if (what == 8) results.grad_hidden = Tensor{};
    std::array<int64_t, 7> made{};
    std::thread([&] {  // remembers nothing yet
      made = sizes(*MakeLayout(problem, results, limit, clusters));
    })
        .join();
    EXPECT_EQ(sizes(*MakeLayout(problem, results, limit, clusters)), made) << i;
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The chunks into which backward cuts the vocabulary where logits are kept. Host arithmetic: needs no
// GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/cuda/layout/workspace.h"

namespace plumbline::kernel::cuda {
namespace {

Layout Of(int64_t n, int64_t h, int64_t v, size_t limit) {
  Problem problem;
  problem.hidden = {nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  problem.weight = {nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  Results results;
  results.grad_hidden = Tensor{nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  results.grad_weight = Tensor{nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  const std::optional<Layout> layout = MakeLayout(problem, results, limit);
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

}  // namespace
}  // namespace plumbline::kernel::cuda

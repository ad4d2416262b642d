// SPDX-License-Identifier: Apache-2.0
//
// The memory sizes that kernel/OPERATION.md promises, worked out here by hand.

#include "kernel/host/workspace.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

// Shapes alone; nothing is allocated.
Problem Shapes(int64_t n, int64_t v, int64_t h) {
  Problem problem;
  problem.hidden = {nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  problem.weight = {nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  problem.labels = {nullptr, DType::kI64, 1, {n, 1}, {1, 1}};
  return problem;
}

Results Wanted(const Problem& p, bool grad_hidden, bool grad_weight) {
  Results results;
  const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
  results.logprob = Tensor{nullptr, DType::kF32, 1, {n, 1}, {1, 1}};
  if (grad_hidden) results.grad_hidden = Tensor{nullptr, DType::kBf16, 2, {n, h}, {h, 1}};
  if (grad_weight) results.grad_weight = Tensor{nullptr, DType::kBf16, 2, {v, h}, {h, 1}};
  return results;
}

Sizes SizesOf(int64_t n, int64_t v, int64_t h, bool grad_hidden, bool grad_weight, int threads) {
  const Problem problem = Shapes(n, v, h);
  Sizes sizes;
  const Status status =
      GetSizes(problem, Wanted(problem, grad_hidden, grad_weight), {.threads = threads}, &sizes);
  EXPECT_TRUE(status.ok()) << status.message;
  return sizes;
}

// 4096 rows, 151 936 columns, hidden size 2048, 4 threads. Fails if a region is added, or grows with V.
TEST(WorkspaceTest, FiguresOfALargeProblem) {
  const size_t scratch = 4 * (96 * 2048 + 256 * 64 + 96 * 512);
  const size_t forward = 4096 * (8 + 4 + 4 + 8 * 12);
  const size_t backward = 4096 * (8 + 4 + 4 + 4 * 1024);
  const Sizes infer = SizesOf(4096, 151936, 2048, false, false, 4);
  EXPECT_EQ(infer.workspace, 4 * scratch + forward);
  EXPECT_EQ(infer.saved, 0u);
  EXPECT_EQ(SizesOf(4096, 151936, 2048, false, true, 4).workspace, 4 * scratch + backward);
  const Sizes train = SizesOf(4096, 151936, 2048, true, true, 4);
  EXPECT_EQ(train.workspace, 4 * scratch + backward + 4096u * 2048 * 4);
  EXPECT_EQ(train.saved, 64 + 4096u * 16);
  // No N x V memory is needed: all of it is below a fortieth of the fp32 logits.
  EXPECT_LT(train.workspace, 4096ull * 151936 * 4 / 40);
}

// Twice the vocabulary needs no more memory. Fails if anything but the output has a size of order V.
TEST(WorkspaceTest, DoesNotGrowWithTheVocabulary) {
  EXPECT_EQ(SizesOf(512, 100'000, 256, true, true, 2).workspace,
            SizesOf(512, 200'000, 256, true, true, 2).workspace);
}

// Fails if a problem without rows needs memory, or if sizes that no memory holds wrap around and are
// not refused.
TEST(WorkspaceTest, ExtremeShapes) {
  const Sizes none = SizesOf(0, 1000, 64, true, true, 2);
  EXPECT_EQ(none.workspace, 0u);
  EXPECT_EQ(none.saved, 0u);
  const Problem problem = Shapes(int64_t{1} << 55, 1 << 20, 1);
  Sizes sizes;
  const Status status = GetSizes(problem, Wanted(problem, true, true), {}, &sizes);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_EQ(
      status.message,
      "hidden.shape = [36028797018963968, 1] with weight.shape[0] = 1048576 needs a workspace of more "
      "than 2^62 bytes");
}

// Memory has exactly the sizes named, between guard bytes. Fails on a write past either end, and so
// also for a size that is smaller than what is used.
TEST(WorkspaceTest, NothingBeyondTheSizesIsTouched) {
  constexpr size_t kGuard = 4096;
  for (const int64_t v : {1, 64, 65, 1500}) {
    PlacedProblem placed(TestValues::Random(DType::kF32, 130, v, 70, 1));
    Sizes sizes;
    const Execution execution{.threads = 3};
    ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), execution, &sizes).ok());
    const auto guarded = [&](size_t bytes) {
      struct Free {
        void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
      };
      const size_t total = bytes + 2 * kGuard;
      std::unique_ptr<std::byte, Free> memory(
          static_cast<std::byte*>(::operator new (total, std::align_val_t{64})));
      std::memset(memory.get(), 0xa5, total);
      return memory;
    };
    const auto intact = [&](const std::byte* memory, size_t bytes) {
      for (size_t i = 0; i < kGuard; ++i) {
        if (memory[i] != std::byte{0xa5} || memory[kGuard + bytes + i] != std::byte{0xa5}) return false;
      }
      return true;
    };
    const auto workspace = guarded(sizes.workspace), saved = guarded(sizes.saved);
    ASSERT_TRUE(Forward(placed.problem(), placed.results(), execution, workspace.get() + kGuard,
                        saved.get() + kGuard)
                    .ok());
    ASSERT_TRUE(Backward(placed.problem(), placed.results(), execution, workspace.get() + kGuard,
                         saved.get() + kGuard)
                    .ok());
    EXPECT_TRUE(intact(workspace.get(), sizes.workspace)) << v;
    EXPECT_TRUE(intact(saved.get(), sizes.saved)) << v;
  }
}

}  // namespace
}  // namespace plumbline::kernel

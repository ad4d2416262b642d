// SPDX-License-Identifier: Apache-2.0
//
// The promises about bits. They are the same for every number of threads, instruction set, layout,
// label type, batch and floating-point environment of the caller, and for two backward passes from one
// saved state.

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "kernel/host/parallel.h"
#include "kernel/host/simd.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

// Draws several row blocks, splits, chunks, depth blocks and column groups, ragged in every dimension.
TestValues Large(DType dtype, uint64_t seed = 1) {
  TestValues values = TestValues::Random(dtype, 205, 1603, 531, seed);
  values.labels[3] = -100;
  values.g[7] = values.k[7] = 0;
  for (int64_t i = 0; i < values.n; ++i) values.temperature.push_back(0.5f + static_cast<float>(i % 7));
  return values;
}

// Fails if work items share a reduction, or if a size depends on the number of threads.
TEST(HostBitsTest, SameForEveryNumberOfThreads) {
  const TestValues values = Large(DType::kBf16);
  ASSERT_GT(host::ThreadsFor(5, 205.0 * 1603 * 531), 4) << "the problem is too small to start threads";
  const TestOutputs one = Computed(values, {}, {.threads = 1});
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(Computed(values, {}, {.threads = threads}) == one) << threads << " threads";
  }
}

// Fails if small work starts threads, which cost more than 100 000 multiply-adds do.
TEST(HostBitsTest, SmallWorkStaysOnOneThread) {
  EXPECT_EQ(host::ThreadsFor(64, 100'000), 1);
  EXPECT_EQ(host::ThreadsFor(0, 100'000), 1);
  EXPECT_EQ(host::ThreadsFor(3, 1e12), 3);
}

// Runs every compiled instruction set that this CPU has, the baseline included. NaN rows are part of
// it, because a NaN's payload must not differ either. Fails if any stage contracts, reorders or flushes
// on one of them.
TEST(HostBitsTest, SameOnEveryInstructionSet) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    TestValues values = TestValues::Random(dtype, 19, 333, 67, 2, 30);
    values.Hidden(2, 5) = std::numeric_limits<float>::quiet_NaN();
    values.Hidden(3, 5) = std::numeric_limits<float>::infinity();
    values.fp32_grads = true;
    for (int64_t i = 0; i < values.n; ++i) values.g[static_cast<size_t>(i)] *= 0x1p-100f;
    int sets = 0;
    TestOutputs first;
    for (int64_t left = host::CompiledTargets() & hwy::SupportedTargets(); left != 0;
         left &= left - 1) {
      hwy::SetSupportedTargetsForTest(left & -left);
      const TestOutputs out = Computed(values);
      hwy::SetSupportedTargetsForTest(0);
      if (sets++ == 0) first = out;
      EXPECT_TRUE(out == first) << hwy::TargetName(left & -left);
    }
    EXPECT_GT(sets, 0);
  }
}

// Fails if a stride, an offset or a label width is ignored, or if padding is read into a result.
TEST(HostBitsTest, SameForEveryLayout) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    TestValues values = TestValues::Random(dtype, 9, 150, 37, 3);
    values.temperature.assign(9, 1.25f);
    const TestOutputs plain = Computed(values);
    for (const bool hidden_major : {false, true}) {
      for (const DType labels : {DType::kI32, DType::kI64}) {
        const TestLayout layout = {.hidden_major = hidden_major,
                                   .hidden_padding = 5,
                                   .weight_padding = 3,
                                   .label_offset = 1,
                                   .vector_stride = 2,
                                   .label_dtype = labels};
        EXPECT_TRUE(Computed(values, layout) == plain) << hidden_major << Name(labels);
      }
    }
  }
}

// A zero stride of an upstream gradient means one value for all rows. Fails if the stride is taken for
// 1.
TEST(HostBitsTest, BroadcastGradients) {
  TestValues values = TestValues::Random(DType::kF32, 6, 80, 12, 4);
  values.g.assign(6, 0.37f);
  values.k.assign(6, -0.21f);
  const TestOutputs full = Computed(values);
  PlacedProblem placed(values);
  const float g[] = {0.37f, 100}, k[] = {-0.21f, 100};
  placed.problem().grad_logprob = ConstTensor{g, DType::kF32, 1, {6, 1}, {0, 1}};
  placed.problem().grad_entropy = ConstTensor{k, DType::kF32, 1, {6, 1}, {0, 1}};
  ASSERT_TRUE(Compute(placed).ok());
  EXPECT_TRUE(placed.Outputs() == full);
}

// Compares each row alone, and rows in another order, with the batch. Fails if a tile, a chunk or an
// order depends on N, on the position or on a neighbour. The neighbour's gradient here is 2^60 times a
// row's own.
TEST(HostBitsTest, RowsDoNotKnowTheirBatch) {
  TestValues values = TestValues::Random(DType::kBf16, 101, 1100, 40, 5);
  for (size_t i = 0; i < 101; i += 2) values.g[i] *= 0x1p60f;
  const TestOutputs all = Computed(values);
  std::vector<int64_t> order = {100, 7, 7, 0, 96, 95, 12};
  const TestOutputs some = Computed(values.Rows(order));
  for (size_t at = 0; at < order.size(); ++at) {
    const auto i = static_cast<size_t>(order[at]);
    EXPECT_EQ(some.logprob[at], all.logprob[i]);
    EXPECT_EQ(some.entropy[at], all.entropy[i]);
    EXPECT_EQ(some.lse[at], all.lse[i]);
    for (size_t d = 0; d < 40; ++d)
      ASSERT_EQ(some.grad_hidden[at * 40 + d], all.grad_hidden[i * 40 + d]);
    EXPECT_EQ(Computed(values.Rows({order[at]})).logprob[0], all.logprob[i]);
  }
}

class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes)
      : bytes_(bytes), memory_(::operator new (bytes, std::align_val_t{64})) {
    std::memset(memory_, 0xff, bytes);
  }
  ~AlignedMemory() { ::operator delete (memory_, std::align_val_t{64}); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  void* get() { return memory_; }
  std::vector<std::byte> Copy() const {
    const auto* const from = static_cast<const std::byte*>(memory_);
    return {from, from + bytes_};
  }

 private:
  size_t bytes_;
  void* memory_;
};

// Two backward passes with different upstream gradients use one forward, in memory that held garbage
// before, and only read saved. Fails if backward writes the saved state, or needs more than it.
TEST(HostBitsTest, SavedStateServesTwoBackwardPasses) {
  TestValues values = Large(DType::kF32);
  const TestOutputs first = Computed(values);
  TestValues other = values;
  for (float& g : other.g) g = 1 - g;
  const TestOutputs second = Computed(other);

  PlacedProblem a(values), b(other);
  Sizes sizes;
  ASSERT_TRUE(GetSizes(a.problem(), a.results(), {}, &sizes).ok());
  AlignedMemory saved(sizes.saved);
  {
    AlignedMemory workspace(sizes.workspace);
    ASSERT_TRUE(Forward(a.problem(), a.results(), {}, workspace.get(), saved.get()).ok());
  }
  const std::vector<std::byte> before = saved.Copy();
  AlignedMemory workspace(sizes.workspace);
  ASSERT_TRUE(Backward(a.problem(), a.results(), {}, workspace.get(), saved.get()).ok());
  ASSERT_TRUE(Backward(b.problem(), b.results(), {}, workspace.get(), saved.get()).ok());
  EXPECT_EQ(saved.Copy(), before);
  EXPECT_TRUE(a.Outputs() == first);
  EXPECT_EQ(b.Outputs().grad_hidden, second.grad_hidden);
  EXPECT_EQ(b.Outputs().grad_weight, second.grad_weight);
}

// A caller that rounds upward or flushes subnormals gets the same bits, and keeps its settings. Fails
// without the guard in kernel/host/float_environment.h.
TEST(HostBitsTest, CallersFloatEnvironmentDoesNotMatter) {
  TestValues values = TestValues::Random(DType::kF32, 5, 70, 9, 6);
  for (float& g : values.g) g *= 0x1p-140f;
  for (float& k : values.k) k *= 0x1p-140f;
  const TestOutputs expected = Computed(values);
  PlacedProblem rounded(values), flushed(values);
  std::fesetround(FE_UPWARD);
  const Status status = Compute(rounded);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(mode, FE_UPWARD);
  EXPECT_TRUE(rounded.Outputs() == expected);
#if defined(__SSE2__)
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | 0x8040);  // flush to zero, denormals are zero
  const Status flushed_status = Compute(flushed);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(control);
  ASSERT_TRUE(flushed_status.ok());
  EXPECT_EQ(after & 0x8040, 0x8040u);
  EXPECT_TRUE(flushed.Outputs() == expected);
#endif
}

// Outputs that are not asked for change nothing else. Fails if an output is computed by way of another.
TEST(HostBitsTest, AbsentOutputsChangeNothing) {
  const TestValues values = TestValues::Random(DType::kF16, 8, 200, 24, 7);
  const TestOutputs all = Computed(values);
  for (int leave_out = 0; leave_out < 6; ++leave_out) {
    PlacedProblem placed(values);
    Results& results = placed.results();
    TestOutputs expected = all;
    if (leave_out == 0) results.logprob.reset(), expected.logprob.clear();
    if (leave_out == 1) results.entropy.reset(), expected.entropy.clear();
    if (leave_out == 2) results.lse.reset(), expected.lse.clear();
    if (leave_out == 3) results.grad_hidden.reset(), expected.grad_hidden.clear();
    if (leave_out == 4) results.grad_weight.reset(), expected.grad_weight.clear();
    if (leave_out == 5) results.first_invalid_row.reset(), expected.first_invalid_row = -2;
    ASSERT_TRUE(Compute(placed).ok());
    EXPECT_TRUE(placed.Outputs() == expected) << "without output " << leave_out;
  }
}

}  // namespace
}  // namespace plumbline::kernel

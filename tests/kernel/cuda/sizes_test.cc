// SPDX-License-Identifier: Apache-2.0
//
// The memory that the CUDA operator asks for. Host arithmetic: needs no GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

struct Asked {
  int64_t n = 8192, h = 4096, v = 151936;
  DType dtype = DType::kBf16;
  bool gradients = true;
  bool fp32_gradients = false;
};

class CudaSizes : public testing::TestWithParam<CudaPath> {
 protected:
  static Sizes Of(const Asked& a) {
    Problem problem;
    problem.hidden = {nullptr, a.dtype, 2, {a.n, a.h}, {a.h, 1}};
    problem.weight = {nullptr, a.dtype, 2, {a.v, a.h}, {a.h, 1}};
    problem.labels = {nullptr, DType::kI64, 1, {a.n, 1}, {1, 1}};
    const Tensor rows{nullptr, DType::kF32, 1, {a.n, 1}, {1, 1}};
    Results results;
    results.logprob = rows;
    results.entropy = rows;
    results.lse = rows;
    const DType grads = a.fp32_gradients ? DType::kF32 : a.dtype;
    if (a.gradients) {
      results.grad_hidden = Tensor{nullptr, grads, 2, {a.n, a.h}, {a.h, 1}};
      results.grad_weight = Tensor{nullptr, grads, 2, {a.v, a.h}, {a.h, 1}};
    }
    Sizes sizes;
    const Status status =
        GetSizes(problem, results, {.device = Device::kCuda, .path = GetParam()}, &sizes);
    EXPECT_TRUE(status.ok()) << status.message;
    return sizes;
  }
};

constexpr size_t kMiB = size_t{1} << 20;

// The project's promise at the size of a large model. Fails if a buffer is added or double-buffered.
TEST_P(CudaSizes, OfALargeModel) {
  const Sizes infer = Of({.gradients = false});
  EXPECT_LE(infer.workspace, 96 * kMiB);
  EXPECT_EQ(infer.saved, 0u);
  EXPECT_GT(infer.workspace, 0u);
  const Sizes train = Of({});
  EXPECT_LE(train.workspace, 450 * kMiB);
  EXPECT_LE(train.saved, 8192u * 64);
  EXPECT_GT(train.saved, 0u);
}

// No N x V memory is needed. Fails if the largest of all dtypes is not far below the logits in fp32.
TEST_P(CudaSizes, AreFarBelowTheLogits) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (const bool fp32 : {false, true}) {
      const size_t logits = size_t{8192} * 151936 * 4;
      EXPECT_LT(Of({.dtype = dtype, .fp32_gradients = fp32}).workspace, logits / 3) << fp32;
    }
  }
}

// Fails if a row needs more per column of the vocabulary than its share of a partial sum, such as a
// logit.
TEST_P(CudaSizes, GrowWithTheVocabularyByPartialsOnly) {
  const Sizes once = Of({.v = 151936, .gradients = false});
  const Sizes twice = Of({.v = 2 * 151936, .gradients = false});
  EXPECT_LE(twice.workspace, 2 * once.workspace + 4096);
  const Sizes train = Of({.v = 151936}), train_twice = Of({.v = 2 * 151936});
  EXPECT_LE(train_twice.workspace, train.workspace + 128 * kMiB);  // a stretch is longer
}

// Fails if a problem without rows needs saved state, or one of a single element much memory.
TEST_P(CudaSizes, OfNothing) {
  EXPECT_EQ(Of({.n = 0}).saved, 0u);
  EXPECT_LE(Of({.n = 1, .h = 1, .v = 1}).workspace, 4 * kMiB);
}

// Fails if a machine without a device gives a crash and no message, or if sizes need a device.
TEST_P(CudaSizes, ACallWithoutADeviceSaysSo) {
  if (device::WhyNoDevice().empty()) GTEST_SKIP() << "there is a device here";
  PlacedProblem placed(TestValues::Random(DType::kBf16, 2, 3, 4, 1));
  const Execution execution = OnDevice(GetParam());
  Sizes sizes;
  ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), execution, &sizes).ok());
  alignas(64) static std::byte never_read[64];
  const Status status = Forward(placed.problem(), placed.results(), execution, never_read, never_read);
  EXPECT_EQ(status.code, Code::kFailed);
  EXPECT_THAT(status.message, testing::HasSubstr("cudaGetDevice"));
}

INSTANTIATE_TEST_SUITE_P(Paths, CudaSizes, EachPath(), PathName);

// Shapes alone: sizes need no device.
Problem OfSize(int64_t n, int64_t h, int64_t v, DType dtype) {
  Problem problem;
  problem.hidden = {nullptr, dtype, 2, {n, h}, {h, 1}};
  problem.weight = {nullptr, dtype, 2, {v, h}, {h, 1}};
  problem.labels = {nullptr, DType::kI64, 1, {n, 1}, {1, 1}};
  return problem;
}

Results ResultsFor(const Problem& problem, bool gradients) {
  Results results;
  results.logprob = Tensor{nullptr, DType::kF32, 1, {problem.rows(), 1}, {1, 1}};
  if (gradients) {
    const int64_t v = problem.vocab(), h = problem.hidden_size();
    results.grad_weight = Tensor{nullptr, problem.weight.dtype, 2, {v, h}, {h, 1}};
  }
  return results;
}

constexpr int64_t kRows = 8192, kHidden = 4096, kVocab = 151936;
// Forward's places of rows, in the saved state and in backward's copy.
constexpr size_t kPlaces = 2 * kRows * 4;

size_t SizeOf(int64_t n, int64_t h, int64_t v, DType dtype, size_t limit, bool gradients = true) {
  const Problem problem = OfSize(n, h, v, dtype);
  const Results results = ResultsFor(problem, gradients);
  size_t bytes = 0;
  const Status status = GetForwardBackwardSize(
      problem, results, {.device = Device::kCuda, .kept_logits_bytes = limit}, &bytes);
  EXPECT_TRUE(status.ok()) << status.message;
  return bytes;
}

// Kept logits stay within the limit and use it to within a block of 64 columns, for fp32 to within a
// chunk of 1536. The longer chunks that they make possible take at most a quarter of the limit, and 1
// GiB. Fails if the limit is exceeded, or if nothing is kept where something fits.
TEST(CudaForwardBackwardSizes, KeptLogitsStayWithinTheirLimit) {
  constexpr size_t kLongest = size_t{1} << 30;
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    const size_t nothing = SizeOf(kRows, kHidden, kVocab, dtype, 0);
    const size_t step = dtype == DType::kF32 ? 1536 : 64, column = kRows * 4;
    for (const size_t limit : {size_t{1} << 28, size_t{1} << 30, size_t{3} << 30}) {
      const size_t more = SizeOf(kRows, kHidden, kVocab, dtype, limit) - nothing - kPlaces;
      EXPECT_LE(more, limit + std::min(limit / 4, kLongest));
      EXPECT_GT(more + (step + 32) * column, std::min(limit, column * kVocab));
    }
    const size_t of_all = SizeOf(kRows, kHidden, kVocab, dtype, size_t{8} << 30) - nothing;
    EXPECT_GE(of_all, kPlaces + column * kVocab);
    EXPECT_LE(of_all, kPlaces + column * kVocab + kLongest);
  }
  EXPECT_LT(SizeOf(kRows, kHidden, kVocab, DType::kBf16, size_t{8} << 30, false), size_t{96} << 20);
}

// Exponents, which bf16 problems keep, need half of that and an offset for each 128 columns and one
// more. d_logits lie in their place, 3072 columns ahead, or 8192 where all columns are kept, since the
// totals of grad_hidden lie there, too. Fails as the test above, or if d_logits of kept columns take
// more.
TEST(CudaForwardBackwardSizes, KeptExponentsStayWithinTheirLimit) {
  constexpr size_t kColumn = kRows * 2, kAhead = 3072 * kColumn, kAheadOfAll = 8192 * kColumn;
  const auto offsets = [](size_t columns) { return kRows * 4 * ((columns + 127) / 128 + 1); };
  const size_t nothing = SizeOf(kRows, kHidden, kVocab, DType::kBf16, 0);
  for (const size_t limit : {size_t{1} << 28, size_t{1} << 30}) {
    const size_t more = SizeOf(kRows, kHidden, kVocab, DType::kBf16, limit) - nothing - kPlaces;
    EXPECT_LE(more, limit + offsets(limit / kColumn) + kAhead);
    EXPECT_GT(more + 65 * kColumn, limit);
  }
  // Beside these: hidden packed, 64 MiB, a stretch of packed weight, 39 MiB, and the rows' numbers.
  const size_t all = kColumn * kVocab + offsets(kVocab) + kPlaces;
  const size_t of_all = SizeOf(kRows, kHidden, kVocab, DType::kBf16, size_t{8} << 30);
  EXPECT_GE(of_all, all);
  EXPECT_LE(of_all, all + kAheadOfAll + (size_t{105} << 20));
}

// The project's promise with everything kept. Fails if d_logits of kept columns, or the totals of
// grad_hidden where the state is consumed, have memory of their own.
TEST(CudaForwardBackwardSizes, OfALargeModel) {
  const Problem problem = OfSize(8192, 4096, 151936, DType::kBf16);
  Results results = ResultsFor(problem, true);
  results.grad_hidden = Tensor{nullptr, DType::kBf16, 2, {8192, 4096}, {4096, 1}};
  size_t at_once = 0;
  ASSERT_TRUE(GetForwardBackwardSize(problem, results, {.device = Device::kCuda}, &at_once).ok());
  EXPECT_LE(at_once, size_t{2650} << 20);
  Execution execution = {.device = Device::kCuda, .saved_logits_bytes = ~size_t{0}};
  Sizes lives, consumed;
  ASSERT_TRUE(GetSizes(problem, results, execution, &lives).ok());
  execution.saved_is_consumed = true;
  ASSERT_TRUE(GetSizes(problem, results, execution, &consumed).ok());
  EXPECT_LE(consumed.workspace + consumed.saved, size_t{2650} << 20);
  EXPECT_LE(lives.workspace + lives.saved, size_t{3400} << 20);
}

size_t SavedBy(int64_t n, int64_t v, size_t limit, bool gradients, KeptForm form = KeptForm::kDefault) {
  const Problem problem = OfSize(n, 64, v, DType::kBf16);
  Sizes sizes;
  const Status status =
      GetSizes(problem, ResultsFor(problem, gradients),
               {.device = Device::kCuda, .saved_logits_bytes = limit, .kept_form = form}, &sizes);
  EXPECT_TRUE(status.ok()) << status.message;
  return sizes.saved;
}

// Saved state takes a header of 64 bytes and 16 bytes a row; with logits 4 more, and 4 a logit, and the
// header a region of 256; an exponent takes 2, and each offset 4. Fails if a caller who gives no memory
// for logits, or one who wants no gradient, is asked for some.
TEST(CudaForwardBackwardSizes, SavedLogitsAreOnlyThoseAskedFor) {
  for (const KeptForm form : {KeptForm::kDefault, KeptForm::kLogits}) {
    const bool logits = form == KeptForm::kLogits;
    const size_t block = kRows * 64 * (logits ? 4 : 2);
    for (const size_t limit : {size_t{0}, block - 1}) {
      EXPECT_EQ(SavedBy(kRows, kVocab, limit, true, form), 64 + kRows * 16);
    }
    EXPECT_EQ(SavedBy(kRows, kVocab, block, true, form),
              256 + kRows * 20 + block + (logits ? 0 : kRows * 4 * 2));
    EXPECT_EQ(SavedBy(kRows, kVocab, ~size_t{0}, true, form),
              256 + kRows * 20 + block / 64 * kVocab + (logits ? 0 : kRows * 4 * (kVocab / 128 + 1)));
  }
  EXPECT_EQ(SavedBy(kRows, kVocab, ~size_t{0}, false), 0u);
  EXPECT_EQ(SavedBy(0, kVocab, ~size_t{0}, true), 0u);
}

// Fails if an empty or tiny problem needs memory for the logits that the limit would allow.
TEST(CudaForwardBackwardSizes, OfNothing) {
  for (const size_t limit : {size_t{0}, size_t{1}, ~size_t{0}}) {
    EXPECT_LE(SizeOf(0, 64, 1000, DType::kBf16, limit), size_t{4} << 20);
    EXPECT_LE(SizeOf(5, 64, 0, DType::kF32, limit), size_t{8} << 20);
    EXPECT_LE(SizeOf(1, 1, 1, DType::kF16, limit), size_t{4} << 20);
  }
}

}  // namespace
}  // namespace plumbline::kernel::device

// SPDX-License-Identifier: Apache-2.0
//
// Gradients in forward by blocks of rows: which blocks there are, and what memory they take, by host
// arithmetic; and on a GPU, that they have the bits of one block.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/kept_calls.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using ::testing::HasSubstr, ::testing::IsEmpty;

struct Shape {
  int64_t n, h, v;
};

// Shapes alone; without a gradient that is asked for there are no blocks.
struct Asked {
  explicit Asked(const Shape& shape, DType dtype = DType::kBf16, bool hidden = true,
                 bool weight = true) {
    const auto [n, h, v] = shape;
    problem.hidden = {nullptr, dtype, 2, {n, h}, {h, 1}};
    problem.weight = {nullptr, dtype, 2, {v, h}, {h, 1}};
    problem.labels = {nullptr, DType::kI64, 1, {n, 1}, {1, 1}};
    if (hidden) results.grad_hidden = Tensor{nullptr, dtype, 2, {n, h}, {h, 1}};
    if (weight) results.grad_weight = Tensor{nullptr, dtype, 2, {v, h}, {h, 1}};
  }
  int64_t Rows(const Execution& execution) const {
    return cuda::RowsOfBlock(problem, results, execution);
  }
  size_t Bytes(const Execution& execution) const {
    size_t bytes = 0;
    const Status status = GetForwardBackwardSize(problem, results, execution, &bytes);
    EXPECT_TRUE(status.ok()) << status.message;
    return bytes;
  }
  Problem problem;
  Results results;
};

Execution Within(size_t bytes) { return {.device = Device::kCuda, .kept_logits_bytes = bytes}; }
Execution OfRows(int64_t rows) { return {.device = Device::kCuda, .block_rows = rows}; }

// Fails if blocks that the limit asks for take more than the limit, whatever is asked for, or if the
// last block, which has fewer rows, needs more than the others.
TEST(CudaRowBlocks, TakeNoMoreThanTheLimit) {
  int several = 0;
  for (const int64_t n : {3000, 35840, 131072, 1000000, 7226368, 72263680}) {
    for (const int64_t h : {8, 1024, 2304, 4096, 7168}) {
      for (const int64_t v : {1000, 32003, 131072, 256000}) {
        for (const size_t limit :
             {size_t{1} << 28, size_t{1} << 30, size_t{4} << 30, size_t{5} << 30, size_t{8} << 30}) {
          for (const auto& [hidden, weight] : {std::pair{true, true}, {true, false}, {false, true}}) {
            const Asked asked({n, h, v}, DType::kBf16, hidden, weight);
            const int64_t rows = asked.Rows(Within(limit));
            if (rows == n) continue;
            ++several;
            EXPECT_EQ(rows % 256, 0);
            EXPECT_LE(asked.Bytes(Within(limit)), limit)
                << n << " x " << h << " x " << v << " limit " << limit << " rows " << rows;
          }
        }
      }
    }
  }
  EXPECT_GT(several, 100);
  // A stretch of packed weight takes more than stretches at once.
  const Asked wide({778425, 32940, 526313});
  EXPECT_LT(wide.Rows(Within(75249385098)), 778425);
  EXPECT_LE(wide.Bytes(Within(75249385098)), 75249385098u);
  // The last block has 128 rows, as many as a sweep over weight takes.
  struct Few {
    int64_t n, v;
    size_t limit;
  };
  for (const auto& [n, v, limit] :
       {Few{19328, 1740000, size_t{8} << 30}, Few{38528, 1120000, size_t{8} << 30},
        Few{20608, 2000000, 12872113364}}) {
    const Asked asked({n, 512, v}, DType::kBf16, true, true);
    const int64_t rows = asked.Rows(Within(limit));
    EXPECT_EQ(n % rows, 128) << rows;
    EXPECT_LE(asked.Bytes(Within(limit)), limit) << n << " x 512 x " << v;
  }
}

// Fails if rows are divided though their exponents fit, or though dividing costs more than it saves, or
// where nothing is kept as exponents; or if they are not divided where it saves much.
TEST(CudaRowBlocks, AreChosenWhereTheySaveWork) {
  EXPECT_EQ(Asked({8192, 4096, 151936}).Rows(Within(size_t{8} << 30)), 8192);
  // From three blocks on they are faster, though all exponents fit.
  EXPECT_EQ(Asked({16384, 4096, 131072}).Rows(Within(size_t{8} << 30)), 16384);
  EXPECT_EQ(Asked({32768, 4096, 131072}).Rows(Within(size_t{8} << 30)), 8192);
  EXPECT_EQ(Asked({131072, 4096, 131072}).Rows(Within(size_t{8} << 30)), 8192);
  EXPECT_EQ(Asked({32768, 1024, 131072}).Rows(Within(size_t{8} << 30)), 32768);
  // Fewer rows than these fit beside the sums.
  EXPECT_LT(Asked({131072, 4096, 131072}).Rows(Within(size_t{4} << 30)), 8192);
  // One block multiplies again for the logits of fewer rows than the sums cost.
  EXPECT_EQ(Asked({9000, 4096, 131072}).Rows(Within(size_t{9000 - 900} * 131072 * 2)), 9000);
  // The sums alone pass the limit.
  EXPECT_EQ(Asked({8192, 4096, 151936}).Rows(Within(size_t{1} << 30)), 8192);
  EXPECT_EQ(Asked({131072, 4096, 131072}, DType::kF16).Rows(Within(size_t{8} << 30)), 131072);
  EXPECT_EQ(Asked({131072, 4096, 131072}, DType::kF32).Rows(Within(size_t{8} << 30)), 131072);
  EXPECT_EQ(Asked({131072, 4096, 131072}, DType::kBf16, false, false).Rows(Within(size_t{8} << 30)),
            131072);
  Execution logits = Within(size_t{8} << 30);
  logits.kept_form = KeptForm::kLogits;
  EXPECT_EQ(Asked({131072, 4096, 131072}).Rows(logits), 131072);
  EXPECT_EQ(Asked({0, 64, 1000}).Rows(Within(0)), 0);
  EXPECT_EQ(Asked({100, 64, 0}).Rows(Within(0)), 100);
}

// Fails if the memory of a call with both gradients is too small for one that asks for less.
TEST(CudaRowBlocks, MemoryForMoreIsEnoughForLess) {
  for (const int64_t n : {1, 65, 1025, 8192, 33000, 131072}) {
    for (const int64_t h : {2, 1024, 4096}) {
      for (const int64_t v : {3, 1000, 131072}) {
        for (const size_t limit : {size_t{0}, size_t{1} << 30, size_t{4} << 30, size_t{8} << 30}) {
          for (const int64_t rows : {0, 64, 4096}) {
            Execution execution = Within(limit);
            execution.block_rows = rows;
            const size_t both = Asked({n, h, v}).Bytes(execution);
            for (const auto& [hidden, weight] :
                 {std::pair{false, false}, {true, false}, {false, true}}) {
              EXPECT_LE(Asked({n, h, v}, DType::kBf16, hidden, weight).Bytes(execution), both)
                  << n << " x " << h << " x " << v << " limit " << limit << " rows " << rows;
            }
          }
        }
      }
    }
  }
}

// Fails if what a caller asks for overflows, is taken where there are no exponents, or is not refused.
TEST(CudaRowBlocks, AreThoseAskedFor) {
  const Asked asked({1000, 64, 1000});
  EXPECT_EQ(asked.Rows(OfRows(1)), 64);
  EXPECT_EQ(asked.Rows(OfRows(65)), 128);
  EXPECT_EQ(asked.Rows(OfRows(999)), 1000);
  EXPECT_EQ(asked.Rows(OfRows(std::numeric_limits<int64_t>::max())), 1000);
  EXPECT_EQ(Asked({1000, 64, 1000}, DType::kF32).Rows(OfRows(64)), 1000);
  size_t bytes = 0;
  const Status status = GetForwardBackwardSize(asked.problem, asked.results, OfRows(-1), &bytes);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("execution.block_rows = -1 is negative"));
}

class GpuRowBlocks : public KeepingOnEachPath {
 protected:
  static Execution InBlocks(int64_t rows, size_t limit = size_t{1} << 30) {
    Execution execution = On();
    execution.block_rows = rows;
    execution.kept_logits_bytes = limit;
    return execution;
  }
};

// Answers with the values' gradients of the block, and checks which blocks it is asked for.
struct ByBlock {
  explicit ByBlock(const TestValues& values) : n(values.n), g(values.g.size() * 4), k(g.size()) {
    g.Put(values.g.data(), g.size());
    k.Put(values.k.data(), k.size());
  }
  UpstreamGradients Upstream() { return {&Answer, this}; }
  static Status Answer(void* context, const RowBlock& block) {
    ByBlock& self = *static_cast<ByBlock*>(context);
    EXPECT_EQ(block.first, self.next);
    self.next += block.rows;
    ++self.blocks;
    const auto copy = [&](float* to, const DeviceBuffer& from) {
      Check(cudaMemcpyAsync(to, from.data() + block.first * 4, static_cast<size_t>(block.rows) * 4,
                            cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(block.stream)),
            "cudaMemcpyAsync");
    };
    copy(block.grad_logprob, self.g);
    copy(block.grad_entropy, self.k);
    return Status::Ok();
  }
  int64_t n, next = 0;
  int blocks = 0;
  DeviceBuffer g, k;
};

// Runs gradients in forward in exactly the workspace that is asked for, full of NaN.
TestOutputs InOneCall(const TestValues& values, const TestLayout& layout, const Execution& execution,
                      bool by_function = false) {
  PlacedProblem placed(values, layout);
  DeviceProblem device(placed.problem(), placed.results());
  Problem problem = device.problem();
  ByBlock by_block(values);
  if (by_function) {
    problem.grad_logprob.reset();
    problem.grad_entropy.reset();
  }
  OneCall call(device, problem, execution, 0xff);
  const Status status = call.Run(by_function ? by_block.Upstream() : UpstreamGradients{});
  EXPECT_TRUE(status.ok()) << status.message;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_THAT(device.Fetch(), IsEmpty());
  EXPECT_TRUE(call.workspace->GuardsIntact());
  if (by_function) {
    EXPECT_EQ(by_block.next, values.n);
    const int64_t rows = cuda::RowsOfBlock(problem, placed.results(), execution);
    EXPECT_EQ(by_block.blocks, (values.n + rows - 1) / rows);
  }
  return placed.Outputs();
}

// All rows take part, so that every chain of grad_weight has the same steps. The last block has 8 rows
// or 56. Fails if a block's inputs, outputs or saved state are another's; if sums of grad_weight do not
// go on, are those of other columns, or are read before they are written; if they pass a tile's end; or
// if the workspace is too small.
TEST_P(GpuRowBlocks, HaveTheBitsOfOneBlock) {
  const TestLayout odd{.hidden_major = true,
                       .hidden_padding = 3,
                       .weight_padding = 5,
                       .label_offset = 1,
                       .vector_stride = 3};
  // In one block the last problem's gradients are computed by one sweep over weight, in blocks not.
  for (const auto& [n, h, v] :
       {Shape{200, 45, 1003}, {200, 256, 4100}, {136, 384, 640}, {120, 512, 1003}}) {
    for (const TestLayout& layout : {TestLayout{}, odd}) {
      for (const bool fp32 : {false, true}) {
        TestValues values = TestValues::Random(DType::kBf16, n, v, h, 21);
        values.fp32_grads = fp32;
        for (int64_t i = 0; i < n; ++i)
          values.temperature.push_back(0.5f + 0.03125f * static_cast<float>(i % 40));
        const TestOutputs one = Apart(values, layout, On());
        for (const size_t limit :
             {size_t{0}, AllBytes(values, KeptForm::kDefault) / 8, size_t{1} << 30}) {
          SCOPED_TRACE(testing::Message()
                       << n << " x " << h << " x " << v << " limit " << limit << " hidden-major "
                       << layout.hidden_major << " fp32 " << fp32);
          EXPECT_TRUE(InOneCall(values, layout, InBlocks(64, limit)) == one);
          EXPECT_TRUE(InOneCall(values, layout, InBlocks(128, limit), layout.vector_stride == 1) ==
                      one);
        }
      }
    }
  }
}

// Blocks with several chunks of grad_weight, beside whose products d_logits of the next chunk are made.
// Fails as the test above.
TEST_P(GpuRowBlocks, OfManyChunksHaveTheBitsOfOneBlock) {
  for (const bool hidden_major : {false, true}) {
    const TestLayout layout{.hidden_major = hidden_major};
    const TestValues values = TestValues::Random(DType::kBf16, 1500, 30000, 256, 22);
    const TestOutputs one = Apart(values, layout, On());
    EXPECT_TRUE(InOneCall(values, layout, InBlocks(512)) == one);
    EXPECT_TRUE(InOneCall(values, layout, InBlocks(512, AllBytes(values, KeptForm::kDefault) / 5)) ==
                one);
  }
}

// Two blocks with totals of grad_hidden behind d_logits, and a last one of 77 rows without. Fails if a
// block takes what the one before left there for its own.
TEST_P(GpuRowBlocks, WithTotalsBehindHaveTheBitsOfOneBlock) {
  const TestValues values = TestValues::Random(DType::kBf16, 2 * 3072 + 77, 23400, 1300, 26);
  EXPECT_TRUE(InOneCall(values, {}, InBlocks(3072)) == Apart(values, {}, On()));
}

// Fails if a block divides by its own number of rows, adds its own loss alone, or says which row of its
// own is invalid.
TEST_P(GpuRowBlocks, ReduceOverAllRows) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    for (const bool invalid : {false, true}) {
      TestValues values = TestValues::Random(DType::kBf16, 300, 1003, 45, 23);
      values.reduction = reduction;
      values.g = {0.7f};
      for (int64_t i = 64; i < 128; ++i) values.labels[static_cast<size_t>(i)] = values.ignore_index;
      if (invalid) values.labels[200] = values.labels[270] = 1003;
      const TestOutputs one = Apart(values, {}, On());
      const TestOutputs found = InOneCall(values, {}, InBlocks(64));
      EXPECT_TRUE(found == one) << static_cast<int>(reduction) << " invalid " << invalid;
      EXPECT_EQ(found.first_invalid_row, invalid ? 200 : -1);
    }
  }
}

// Rows are dropped, so that chains of grad_weight have other steps. Fails if that changes a bit of
// anything else, or if a row that takes part adds nothing.
TEST_P(GpuRowBlocks, WithRowsDroppedKeepAllBitsButThoseOfGradWeight) {
  TestValues values = TestValues::Random(DType::kBf16, 300, 1003, 45, 24);
  values.fp32_grads = true;
  for (size_t i = 0; i < 300; i += 3) values.labels[i] = values.ignore_index;
  for (size_t i = 1; i < 300; i += 7) values.g[i] = values.k[i] = 0;
  TestOutputs one = Apart(values, {}, On());
  TestOutputs found = InOneCall(values, {}, InBlocks(64));
  // An element is a sum of 300 products in fp32. Without one of its rows it would be off by about a
  // hundredth of the largest.
  float largest = 0, off = 0;
  for (size_t i = 0; i < one.grad_weight.size(); ++i) {
    const float a = TestOutputs::Float(one.grad_weight[i]),
                b = TestOutputs::Float(found.grad_weight[i]);
    largest = std::max(largest, std::fabs(a));
    off = std::max(off, std::fabs(a - b));
  }
  EXPECT_LE(off, largest * 300 * 0x1p-22f);
  one.grad_weight.clear();
  found.grad_weight.clear();
  EXPECT_TRUE(found == one);
}

// Fails if one gradient alone has other bits, or needs memory that it does not ask for.
TEST_P(GpuRowBlocks, OfOneGradientAloneKeepTheirBits) {
  const TestValues values = TestValues::Random(DType::kBf16, 200, 4100, 64, 25);
  const TestOutputs both = Apart(values, {}, On());
  for (const bool of_hidden : {true, false}) {
    PlacedProblem placed(values);
    Results results = placed.results();
    (of_hidden ? results.grad_weight : results.grad_hidden).reset();
    DeviceProblem device(placed.problem(), results);
    OneCall call(device, device.problem(), InBlocks(64), 0xff);
    ASSERT_TRUE(call.Run({}).ok());
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_THAT(device.Fetch(), IsEmpty());
    EXPECT_TRUE(call.workspace->GuardsIntact());
    const TestOutputs alone = placed.Outputs();
    EXPECT_TRUE(of_hidden ? alone.grad_hidden == both.grad_hidden
                          : alone.grad_weight == both.grad_weight);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuRowBlocks, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

// SPDX-License-Identifier: Apache-2.0
//
// A thousand rows, each alone and in batches of 2 to 8192. The neighbours' upstream gradients are 2^60
// and 2^-60, and some of the neighbours are ignored, invalid or NaN. Every row's outputs must have the
// same bits.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

constexpr int64_t kRows = 1000, kLargest = 8192;
using GpuBatch = OnEachPath;

// The bits of a row's logprob, entropy, lse and grad_hidden.
using RowBits = std::vector<std::byte>;

// Runs batches over one weight, which stays on the device.
class Batches {
 public:
  Batches(DType dtype, int64_t v, int64_t h, const Execution& execution, bool with_grad_weight)
      : dtype_(dtype),
        v_(v),
        h_(h),
        row_bytes_(static_cast<size_t>(h) * SizeOf(dtype)),
        execution_(execution),
        weight_(static_cast<size_t>(v) * row_bytes_),
        hidden_(kLargest * row_bytes_),
        labels_(kLargest * 8),
        g_(kLargest * 4),
        k_(kLargest * 4),
        temperature_(kLargest * 4),
        logprob_(kLargest * 4),
        entropy_(kLargest * 4),
        lse_(kLargest * 4),
        grad_hidden_(kLargest * row_bytes_),
        grad_weight_(with_grad_weight ? static_cast<size_t>(v) * row_bytes_ : 0) {
    const TestValues values = TestValues::Random(dtype, 0, v, h, 21, 3);
    weight_.Put(Encoded(values.weight).data(), weight_.size());
    // The pool has the tested rows first, then the neighbours.
    TestRandom random(22);
    std::vector<float> pool;
    for (int64_t i = 0; i < (kRows + kLargest) * h; ++i) pool.push_back(RoundTo(dtype, random.Bell()));
    for (int64_t i = 0; i < kRows + kLargest; ++i) {
      const bool tested = i < kRows;
      all_labels_.push_back(static_cast<int64_t>(random.Next() % static_cast<uint64_t>(v)));
      all_t_.push_back(0.5f + 0.25f * static_cast<float>(random.Next() % 8));
      const float huge = random.Next() % 2 == 0 ? 0x1p60f : -0x1p-60f;
      all_g_.push_back(tested ? random.Bell() : huge);
      all_k_.push_back(tested ? random.Bell() : 1 / huge);
      if (tested) continue;
      if (i % 11 == 0) all_labels_.back() = -100;
      if (i % 97 == 0) all_labels_.back() = v;
      if (i % 53 == 0) pool[static_cast<size_t>(i * h)] = std::nanf("");
      if (i % 5 == 0) all_g_.back() = all_k_.back() = 0;
    }
    all_hidden_ = Encoded(pool);
  }

  // Runs the rows of the pool with these indices.
  std::vector<RowBits> Run(const std::vector<int64_t>& rows) {
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<std::byte> hidden;
    std::vector<int64_t> labels;
    std::vector<float> g, k, t;
    for (const int64_t row : rows) {
      const auto at = static_cast<size_t>(row);
      hidden.insert(hidden.end(), all_hidden_.begin() + static_cast<int64_t>(at * row_bytes_),
                    all_hidden_.begin() + static_cast<int64_t>((at + 1) * row_bytes_));
      labels.push_back(all_labels_[at]);
      g.push_back(all_g_[at]);
      k.push_back(all_k_[at]);
      t.push_back(all_t_[at]);
    }
    hidden_.Put(hidden.data(), hidden.size());
    labels_.Put(labels.data(), labels.size() * 8);
    g_.Put(g.data(), g.size() * 4);
    k_.Put(k.data(), k.size() * 4);
    temperature_.Put(t.data(), t.size() * 4);

    const auto vector = [n](const DeviceBuffer& b) {
      return Tensor{b.data(), DType::kF32, 1, {n, 1}, {1, 1}};
    };
    Problem problem;
    problem.hidden = {hidden_.data(), dtype_, 2, {n, h_}, {h_, 1}};
    problem.weight = {weight_.data(), dtype_, 2, {v_, h_}, {h_, 1}};
    problem.labels = {labels_.data(), DType::kI64, 1, {n, 1}, {1, 1}};
    problem.temperature = AsConst(vector(temperature_));
    problem.grad_logprob = AsConst(vector(g_));
    problem.grad_entropy = AsConst(vector(k_));
    Results results;
    results.logprob = vector(logprob_);
    results.entropy = vector(entropy_);
    results.lse = vector(lse_);
    results.grad_hidden = Tensor{grad_hidden_.data(), dtype_, 2, {n, h_}, {h_, 1}};
    if (grad_weight_.size() > 0) {
      results.grad_weight = Tensor{grad_weight_.data(), dtype_, 2, {v_, h_}, {h_, 1}};
    }
    Sizes sizes;
    EXPECT_TRUE(GetSizes(problem, results, execution_, &sizes).ok());
    if (workspace_ == nullptr || sizes.workspace > workspace_->size() || sizes.saved > saved_->size()) {
      workspace_ = std::make_unique<DeviceBuffer>(sizes.workspace);
      saved_ = std::make_unique<DeviceBuffer>(sizes.saved);
    }
    const Status forward = Forward(problem, results, execution_, workspace_->data(), saved_->data());
    EXPECT_TRUE(forward.ok()) << forward.message;
    const Status backward = Backward(problem, results, execution_, workspace_->data(), saved_->data());
    EXPECT_TRUE(backward.ok()) << backward.message;

    std::vector<RowBits> out(rows.size());
    const auto take = [&](const DeviceBuffer& from, size_t width) {
      std::vector<std::byte> bytes(rows.size() * width);
      Check(cudaMemcpy(bytes.data(), from.data(), bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
      for (size_t i = 0; i < rows.size(); ++i) {
        out[i].insert(out[i].end(), bytes.begin() + static_cast<int64_t>(i * width),
                      bytes.begin() + static_cast<int64_t>((i + 1) * width));
      }
    };
    take(logprob_, 4);
    take(entropy_, 4);
    take(lse_, 4);
    take(grad_hidden_, row_bytes_);
    return out;
  }

 private:
  std::vector<std::byte> Encoded(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * SizeOf(dtype_));
    for (size_t i = 0; i < values.size(); ++i)
      PutFloat(dtype_, values[i], bytes.data() + i * SizeOf(dtype_));
    return bytes;
  }

  DType dtype_;
  int64_t v_, h_;
  size_t row_bytes_;
  Execution execution_;
  std::vector<std::byte> all_hidden_;
  std::vector<int64_t> all_labels_;
  std::vector<float> all_g_, all_k_, all_t_;
  DeviceBuffer weight_, hidden_, labels_, g_, k_, temperature_, logprob_, entropy_, lse_, grad_hidden_,
      grad_weight_;
  std::unique_ptr<DeviceBuffer> workspace_, saved_;
};

// `with_grad_weight` asks for that gradient, too, which belongs to no row and is not compared.
void CompareBatches(DType dtype, int64_t v, int64_t h, const Execution& execution,
                    bool with_grad_weight = false) {
  Batches batches(dtype, v, h, execution, with_grad_weight);
  std::vector<RowBits> alone;
  for (int64_t row = 0; row < kRows; ++row) alone.push_back(batches.Run({row})[0]);
  TestRandom random(23);
  for (const int64_t size : {2, 3, 16, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 2048, 4097, 8192}) {
    // Half of each batch are tested rows, at random places. Every tested row is in some batch.
    for (int64_t next = 0; next < kRows;) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < size; ++i) {
        const bool last_chance = i + 1 == size && (rows.empty() || rows.back() >= kRows);
        if (next < kRows && (random.Next() % 2 == 0 || last_chance)) {
          rows.push_back(next++);
        } else {
          rows.push_back(kRows + static_cast<int64_t>(random.Next() % kLargest));
        }
      }
      const std::vector<RowBits> got = batches.Run(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] >= kRows) continue;
        ASSERT_TRUE(got[i] == alone[static_cast<size_t>(rows[i])])
            << "row " << rows[i] << ", " << i << " of a batch of " << size;
      }
    }
  }
}

// Fails if a tile, a split, a chunk or a scale depends on the batch, or if a row affects another.
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchBf16) { CompareBatches(DType::kBf16, 3001, 96, On()); }
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchFp16) { CompareBatches(DType::kF16, 3001, 96, On()); }
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchFp32) { CompareBatches(DType::kF32, 1001, 40, On()); }
// The problem has several chunks of the vocabulary, and a depth that no vector load fits. Fails if a
// row depends on its batch there.
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchOfChunks) { CompareBatches(DType::kBf16, 20003, 33, On()); }

// Everything is kept, in a state that survives or is consumed, as exponents or as logits. Fails if a
// row's place among those that are kept changes its bits, if d_logits in place reach a neighbour, or if
// the division of kept columns, which depends on the number of rows, shows.
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchOfKeptExponents) {
  Execution kept = On();
  kept.saved_logits_bytes = ~size_t{0};
  CompareBatches(DType::kBf16, 3001, 96, kept);
}
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchThatIsConsumed) {
  Execution consumed = On();
  consumed.saved_logits_bytes = ~size_t{0};
  consumed.saved_is_consumed = true;
  CompareBatches(DType::kBf16, 3001, 96, consumed);
}
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchOfKeptLogits) {
  Execution logits = On();
  logits.saved_logits_bytes = ~size_t{0};
  logits.kept_form = KeptForm::kLogits;
  CompareBatches(DType::kBf16, 1501, 40, logits);
}
// Batches of at most 128 rows have both gradients computed by a sweep over weight, on Hopper's path,
// and longer ones by products. Fails if that shows, with nothing kept and with everything.
TEST_P(GpuBatch, ARowHasItsBitsInEveryBatchOfASweep) {
  CompareBatches(DType::kBf16, 1003, 512, On(), /*with_grad_weight=*/true);
  Execution consumed = On();
  consumed.saved_logits_bytes = ~size_t{0};
  consumed.saved_is_consumed = true;
  CompareBatches(DType::kBf16, 1003, 512, consumed, /*with_grad_weight=*/true);
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuBatch, FastPaths(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

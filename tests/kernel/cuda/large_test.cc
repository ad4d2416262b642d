// SPDX-License-Identifier: Apache-2.0
//
// Problems in which an index, an offset or a count exceeds 2^31 or 2^32, in real device memory. Values
// are small integers times a power of two, so every logit is exact in fp32 and equal to that of the
// fp64 reference (support/reference.cu). Only the softmax's error is left, which is far below the error
// of a wrong index.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/cuda/support/reference.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

using GpuLarge = OnEachPath;

struct Shape {
  int64_t n, v, h, hidden_stride, weight_stride;
};

// The softmax of one row in fp64.
struct RowReference {
  double lse = 0, logprob = 0, entropy = 0;
  std::vector<double> dz;
};

class Large {
 public:
  Large(const Shape& s, const Execution& execution)
      : s_(s),
        hidden_(Bytes(s.n, s.h, s.hidden_stride)),
        weight_(Bytes(s.v, s.h, s.weight_stride)),
        labels_(static_cast<size_t>(s.n) * 8),
        g_(static_cast<size_t>(s.n) * 4),
        k_(static_cast<size_t>(s.n) * 4),
        logprob_(static_cast<size_t>(s.n) * 4),
        entropy_(static_cast<size_t>(s.n) * 4),
        lse_(static_cast<size_t>(s.n) * 4),
        grad_hidden_(Bytes(s.n, s.h, s.hidden_stride)),
        grad_weight_(Bytes(s.v, s.h, s.weight_stride)),
        z_(static_cast<size_t>(s.v) * 8) {
    // z| <= 2^-2 h / ...: the exponents give logits a standard deviation of about 2.
    const int exponent = -static_cast<int>(std::lround(std::log2(std::sqrt(static_cast<double>(s.h)))));
    FillBf16(hidden_.data(), s.n, s.h, s.hidden_stride, 31, 0);
    FillBf16(weight_.data(), s.v, s.h, s.weight_stride, 32, exponent);
    TestRandom random(33);
    for (int64_t i = 0; i < s.n; ++i) {
      label_.push_back(static_cast<int64_t>(random.Next() % static_cast<uint64_t>(s.v)));
      g.push_back(random.Bell());
      k.push_back(random.Bell() / 4);
    }
    label_[0] = s.v - 1;
    label_.back() = s.v - 1;
    labels_.Put(label_.data(), label_.size() * 8);
    g_.Put(g.data(), g.size() * 4);
    k_.Put(k.data(), k.size() * 4);

    const auto rows = [&](const DeviceBuffer& b) {
      return Tensor{b.data(), DType::kF32, 1, {s.n, 1}, {1, 1}};
    };
    Problem problem;
    problem.hidden = {hidden_.data(), DType::kBf16, 2, {s.n, s.h}, {s.hidden_stride, 1}};
    problem.weight = {weight_.data(), DType::kBf16, 2, {s.v, s.h}, {s.weight_stride, 1}};
    problem.labels = {labels_.data(), DType::kI64, 1, {s.n, 1}, {1, 1}};
    problem.grad_logprob = AsConst(rows(g_));
    problem.grad_entropy = AsConst(rows(k_));
    Results results;
    results.logprob = rows(logprob_);
    results.entropy = rows(entropy_);
    results.lse = rows(lse_);
    results.grad_hidden =
        Tensor{grad_hidden_.data(), DType::kBf16, 2, {s.n, s.h}, {s.hidden_stride, 1}};
    results.grad_weight =
        Tensor{grad_weight_.data(), DType::kBf16, 2, {s.v, s.h}, {s.weight_stride, 1}};
    Sizes sizes;
    status = GetSizes(problem, results, execution, &sizes);
    if (!status.ok()) return;
    DeviceBuffer workspace(sizes.workspace), saved(sizes.saved);
    status = Forward(problem, results, execution, workspace.data(), saved.data());
    if (status.ok()) status = Backward(problem, results, execution, workspace.data(), saved.data());
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    guards_intact = workspace.GuardsIntact() && saved.GuardsIntact() && grad_hidden_.GuardsIntact() &&
                    grad_weight_.GuardsIntact();
  }

  // Computes row i in fp64 from the definitions of kernel/OPERATION.md.
  RowReference Row(int64_t i) const {
    std::vector<double> z(static_cast<size_t>(s_.v));
    RowLogits(hidden_.data() + i * s_.hidden_stride * 2, weight_.data(), s_.v, s_.h, s_.weight_stride,
              reinterpret_cast<double*>(z_.data()));
    Check(cudaMemcpy(z.data(), z_.data(), z.size() * 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    RowReference row;
    const double m = *std::ranges::max_element(z);
    double sum = 0, moment = 0;
    for (const double x : z) sum += std::exp(x - m), moment += std::exp(x - m) * (m - x);
    const auto at = static_cast<size_t>(i);
    row.lse = m + std::log(sum);
    row.logprob = z[static_cast<size_t>(label_[at])] - row.lse;
    row.entropy = std::log(sum) + moment / sum;
    for (const double x : z) {
      const double p = std::exp(x - row.lse);
      row.dz.push_back(-static_cast<double>(g[at]) * p -
                       static_cast<double>(k[at]) * p * (x - row.lse + row.entropy));
    }
    row.dz[static_cast<size_t>(label_[at])] += static_cast<double>(g[at]);
    return row;
  }

  float F32(const DeviceBuffer& from, int64_t i) const {
    float x = 0;
    Check(cudaMemcpy(&x, from.data() + i * 4, 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return x;
  }
  // Reads elements [row][0 .. h) of a bf16 tensor.
  std::vector<double> Bf16Row(const DeviceBuffer& from, int64_t row, int64_t stride) const {
    std::vector<BFloat16> bits(static_cast<size_t>(s_.h));
    Check(cudaMemcpy(bits.data(), from.data() + row * stride * 2, bits.size() * 2,
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    std::vector<double> out;
    for (const BFloat16 x : bits) out.push_back(static_cast<double>(ToFloat(x)));
    return out;
  }

  const Shape& shape() const { return s_; }
  float Logprob(int64_t i) const { return F32(logprob_, i); }
  float Entropy(int64_t i) const { return F32(entropy_, i); }
  float Lse(int64_t i) const { return F32(lse_, i); }
  std::vector<double> Hidden(int64_t i) const { return Bf16Row(hidden_, i, s_.hidden_stride); }
  std::vector<double> Weight(int64_t v) const { return Bf16Row(weight_, v, s_.weight_stride); }
  std::vector<double> GradHidden(int64_t i) const { return Bf16Row(grad_hidden_, i, s_.hidden_stride); }
  std::vector<double> GradWeight(int64_t v) const { return Bf16Row(grad_weight_, v, s_.weight_stride); }

  Status status;
  bool guards_intact = false;
  std::vector<float> g, k;

 private:
  static size_t Bytes(int64_t rows, int64_t columns, int64_t stride) {
    return static_cast<size_t>((rows - 1) * stride + columns) * 2;
  }
  Shape s_;
  std::vector<int64_t> label_;
  DeviceBuffer hidden_, weight_, labels_, g_, k_, logprob_, entropy_, lse_, grad_hidden_, grad_weight_,
      z_;
};

// The error of a sum of exponentials: 2.5 u each, an argument of t <= 40 with 2.25 roundings, and at
// most 36 + 128 additions deep. That is below 300 u = 2^-15 in all. ln s and the entropy (times 1 + its
// own size) have about the same error.
constexpr double kForward = 0x1p-13;
// The error of a gradient: exponents are rounded to fp16, at most 2^-7 where they are above -32, which
// is 2^-7 ln 2 of a weight; each d_logits is rounded to bf16 (2^-8: 8 bits), the sum is truncated in
// fp32, and the result is rounded to bf16 (2^-8).
constexpr double kGradient = 0x1.cp-7;

void CheckForward(const Large& large, int64_t i, const RowReference& want) {
  EXPECT_NEAR(large.Logprob(i), want.logprob, kForward) << "row " << i;
  EXPECT_NEAR(large.Entropy(i), want.entropy, kForward) << "row " << i;
  EXPECT_NEAR(large.Lse(i), want.lse, kForward) << "row " << i;
}

void CheckGradHidden(const Large& large, int64_t i, const RowReference& want) {
  const Shape& s = large.shape();
  // Sums over the heaviest columns and the rest in one pass, so that every column of weight is read
  // once.
  std::vector<double> sum(static_cast<size_t>(s.h)), magnitude(static_cast<size_t>(s.h));
  for (int64_t v = 0; v < s.v; ++v) {
    const double dz = want.dz[static_cast<size_t>(v)];
    const std::vector<double> w = large.Weight(v);
    for (size_t d = 0; d < w.size(); ++d) {
      sum[d] += dz * w[d];
      magnitude[d] += std::fabs(dz * w[d]);
    }
  }
  const std::vector<double> got = large.GradHidden(i);
  for (size_t d = 0; d < got.size(); ++d) {
    ASSERT_NEAR(got[d], sum[d], kGradient * magnitude[d] + 1e-9) << "row " << i << " element " << d;
  }
}

void CheckGradWeight(const Large& large, const std::vector<int64_t>& columns) {
  const Shape& s = large.shape();
  std::vector<std::vector<double>> sum(columns.size(), std::vector<double>(static_cast<size_t>(s.h)));
  auto magnitude = sum;
  for (int64_t i = 0; i < s.n; ++i) {
    const RowReference row = large.Row(i);
    const std::vector<double> h = large.Hidden(i);
    for (size_t c = 0; c < columns.size(); ++c) {
      const double dz = row.dz[static_cast<size_t>(columns[c])];
      for (size_t d = 0; d < h.size(); ++d) {
        sum[c][d] += dz * h[d];
        magnitude[c][d] += std::fabs(dz * h[d]);
      }
    }
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::vector<double> got = large.GradWeight(columns[c]);
    for (size_t d = 0; d < got.size(); ++d) {
      ASSERT_NEAR(got[d], sum[c][d], kGradient * magnitude[c][d] + 1e-9)
          << "column " << columns[c] << " element " << d;
    }
  }
}

// V H = 2.46e9. Rows of weight and of grad_weight lie beyond element 2^31. Fails if such an index is
// formed in 31 bits.
TEST_P(GpuLarge, WeightBeyond31Bits) {
  const Large large({.n = 6, .v = 300'003, .h = 8192, .hidden_stride = 8192, .weight_stride = 8192},
                    On());
  ASSERT_TRUE(large.status.ok()) << large.status.message;
  EXPECT_TRUE(large.guards_intact);
  for (const int64_t i : {0, 5}) CheckForward(large, i, large.Row(i));
  CheckGradWeight(large, {0, 1, 127, 150'000, 262'143, 262'144, 262'145, 299'999, 300'002});
}

// N V = 4.4e9 logits. Fails if a logit is counted in 32 bits.
TEST_P(GpuLarge, LogitsBeyond32Bits) {
  const Large large({.n = 33'000, .v = 133'001, .h = 40, .hidden_stride = 40, .weight_stride = 40},
                    On());
  ASSERT_TRUE(large.status.ok()) << large.status.message;
  EXPECT_TRUE(large.guards_intact);
  for (const int64_t i : {0, 1, 16'145, 16'146, 16'147, 32'292, 32'293, 32'999}) {
    CheckForward(large, i, large.Row(i));
  }
  CheckGradHidden(large, 32'999, large.Row(32'999));
}

// Strides place hidden, weight and their gradients beyond element 2^32. Fails if such an offset is
// formed in 32 bits.
TEST_P(GpuLarge, StridesBeyond32Bits) {
  const Large large({.n = 35,
                     .v = 2100,
                     .h = 72,
                     .hidden_stride = int64_t{1} << 27,
                     .weight_stride = (int64_t{1} << 21) + 3},
                    On());
  ASSERT_TRUE(large.status.ok()) << large.status.message;
  EXPECT_TRUE(large.guards_intact);
  for (const int64_t i : {0, 16, 17, 32, 33, 34}) {
    const RowReference row = large.Row(i);
    CheckForward(large, i, row);
    CheckGradHidden(large, i, row);
  }
  CheckGradWeight(large, {0, 1, 1023, 1024, 2047, 2048, 2099});
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuLarge, FastPaths(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

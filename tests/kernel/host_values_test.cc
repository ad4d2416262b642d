// SPDX-License-Identifier: Apache-2.0
//
// Values against the definitions of kernel/OPERATION.md, computed naively in long double: one sum an
// output, no tiles, no state. Allowed() derives the bounds term by term. They are crude; the oracle's
// tests have sharp ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

using Real = long double;

struct NaiveRow {
  std::vector<Real> x, p;  // logits over T, probabilities
  Real lse = 0, logprob = 0, entropy = 0;
  Real delta =
      0;  // the largest error of a logit over T: chain of h FMAs, one division, one subtraction
  Real epsilon = 0;  // relative error of s and of q
  Real largest = 0;
};

constexpr Real kU = 0x1p-24L;

Real RelativeRounding(DType dtype) {
  return dtype == DType::kBf16 ? 0x1p-8L : dtype == DType::kF16 ? 0x1p-11L : kU;
}
Real AbsoluteRounding(DType dtype) { return dtype == DType::kF16 ? 0x1p-25L : 0x1p-130L; }

class Naive {
 public:
  explicit Naive(const TestValues& values) : values_(values) {
    const auto n = static_cast<size_t>(values.n), v = static_cast<size_t>(values.v);
    const auto h = static_cast<size_t>(values.h);
    for (size_t i = 0; i < n; ++i) {
      NaiveRow row;
      const Real t = Temperature(i);
      Real largest_sum = 0;
      for (size_t j = 0; j < v; ++j) {
        Real z = 0, sum = 0;
        for (size_t d = 0; d < h; ++d) {
          const Real product = Real{values.hidden[i * h + d]} * Real{values.weight[j * h + d]};
          z += product;
          sum += std::fabs(product);
        }
        row.x.push_back(z / t);
        largest_sum = std::max(largest_sum, sum / t);
      }
      row.largest = *std::max_element(row.x.begin(), row.x.end());
      const Real smallest = *std::min_element(row.x.begin(), row.x.end());
      Real s = 0;
      for (Real x : row.x) s += std::exp(x - row.largest);
      row.lse = row.largest + std::log(s);
      for (Real x : row.x) {
        const Real log_p = x - row.lse;
        row.p.push_back(std::exp(log_p));
        row.entropy -= row.p.back() * log_p;
      }
      row.logprob = row.x[static_cast<size_t>(values.labels[i])] - row.lse;
      const Real spread = row.largest - smallest;
      row.delta = 1.01L * static_cast<Real>(values.h) * kU * largest_sum + 2 * kU * spread;
      // An exponential, then at most one rescale a tile and a split (exponential, product, argument),
      // the tree and the running sums. The rounding of each argument counts once for the whole
      // distance.
      const Real steps = static_cast<Real>((v + 63) / 64 + 8);
      row.epsilon = kU * (2 + 8 + 5 * steps + 2 * spread);
      rows.push_back(row);
    }
  }

  Real Temperature(size_t i) const {
    if (values_.temperature.empty()) return 1;
    return values_.temperature[values_.scalar_temperature ? 0 : i];
  }

  Real LogprobBound(size_t i) const {
    const NaiveRow& r = rows[i];
    return 2 * r.delta + r.epsilon + 4 * kU * std::fabs(r.logprob);
  }
  Real LseBound(size_t i) const {
    const NaiveRow& r = rows[i];
    return r.delta + r.epsilon + 4 * kU * (std::fabs(r.largest) + std::fabs(r.lse));
  }
  // dH = -sum p (ln p + H) dx to first order, and delta^2 beyond. q and s have small relative errors.
  Real EntropyBound(size_t i) const {
    const NaiveRow& r = rows[i];
    Real first = 0;
    for (Real p : r.p) {
      if (p > 0) first += p * std::fabs(std::log(p) + r.entropy);
    }
    return 1.1L * first * r.delta + 4 * r.delta * r.delta + (1 + 2 * r.entropy) * r.epsilon +
           4 * kU * (1 + r.entropy);
  }

  // Computes the gradients of sum g logprob + k H, with their bounds.
  void Gradients() {
    const auto n = static_cast<size_t>(values_.n), v = static_cast<size_t>(values_.v);
    const auto h = static_cast<size_t>(values_.h);
    grad_hidden.assign(n * h, 0);
    grad_hidden_bound.assign(n * h, 0);
    grad_weight.assign(v * h, 0);
    grad_weight_bound.assign(v * h, 0);
    for (size_t i = 0; i < n; ++i) {
      const NaiveRow& r = rows[i];
      const Real g = values_.g.empty() ? 0 : Real{values_.g[i]},
                 k = values_.k.empty() ? 0 : Real{values_.k[i]};
      for (size_t j = 0; j < v; ++j) {
        const Real p = r.p[j];
        const Real one = values_.labels[i] == static_cast<int64_t>(j) ? 1 : 0;
        const Real log_term = p > 0 ? std::log(p) + r.entropy : 0;
        const Real dz = (g * (one - p) - k * p * log_term) / Temperature(i);
        const Real relative = 1.1L * (2 * r.delta + 2 * r.epsilon + 4 * kU);
        const Real log_error =
            2 * r.delta + 2 * r.epsilon + EntropyBound(i) + 4 * kU * std::fabs(log_term);
        const Real error =
            (std::fabs(g) * (p * relative + 3 * kU * std::fabs(one - p)) +
             std::fabs(k) * p * ((relative + 4 * kU) * std::fabs(log_term) + 1.1L * log_error)) /
                Temperature(i) +
            2 * kU * std::fabs(dz) + 0x1p-140L;
        for (size_t d = 0; d < h; ++d) {
          const Real w = values_.weight[j * h + d], x = values_.hidden[i * h + d];
          const Real chain_v = 1.01L * static_cast<Real>(v) * kU,
                     chain_n = 1.01L * static_cast<Real>(n) * kU;
          grad_hidden[i * h + d] += dz * w;
          grad_hidden_bound[i * h + d] += (error + chain_v * (std::fabs(dz) + error)) * std::fabs(w);
          grad_weight[j * h + d] += dz * x;
          grad_weight_bound[j * h + d] += (error + chain_n * (std::fabs(dz) + error)) * std::fabs(x);
        }
      }
    }
  }

  std::vector<NaiveRow> rows;
  std::vector<Real> grad_hidden, grad_hidden_bound, grad_weight, grad_weight_bound;

 private:
  const TestValues& values_;
};

void ExpectNear(const char* what, size_t at, uint32_t got_bits, Real value, Real bound) {
  const Real got = TestOutputs::Float(got_bits);
  EXPECT_TRUE(std::fabs(got - value) <= bound)
      << what << "[" << at << "] = " << static_cast<double>(got) << ", expected "
      << static_cast<double>(value) << " +- " << static_cast<double>(bound);
}

void Judge(const TestValues& values) {
  PlacedProblem placed(values);
  const Status status = Compute(placed);
  ASSERT_TRUE(status.ok()) << status.message;
  const TestOutputs out = placed.Outputs();
  Naive naive(values);
  naive.Gradients();
  for (size_t i = 0; i < static_cast<size_t>(values.n); ++i) {
    ExpectNear("logprob", i, out.logprob[i], naive.rows[i].logprob, naive.LogprobBound(i));
    ExpectNear("entropy", i, out.entropy[i], naive.rows[i].entropy, naive.EntropyBound(i));
    ExpectNear("lse", i, out.lse[i], naive.rows[i].lse, naive.LseBound(i));
    // The bounds must say something: they must be below a hundredth of ln v and of 1, the sizes of what
    // they bound.
    EXPECT_LT(naive.LogprobBound(i), 1e-2L);
    EXPECT_LT(naive.EntropyBound(i), 1e-2L);
  }
  const DType dtype = values.fp32_grads ? DType::kF32 : values.dtype;
  const Real relative = RelativeRounding(dtype), absolute = AbsoluteRounding(dtype);
  for (size_t e = 0; e < out.grad_hidden.size(); ++e) {
    const Real bound = naive.grad_hidden_bound[e];
    ExpectNear("grad_hidden", e, out.grad_hidden[e], naive.grad_hidden[e],
               bound + relative * (std::fabs(naive.grad_hidden[e]) + bound) + absolute);
  }
  for (size_t e = 0; e < out.grad_weight.size(); ++e) {
    const Real bound = naive.grad_weight_bound[e];
    ExpectNear("grad_weight", e, out.grad_weight[e], naive.grad_weight[e],
               bound + relative * (std::fabs(naive.grad_weight[e]) + bound) + absolute);
  }
}

struct Shape {
  DType dtype;
  int64_t n, v, h;
};

class HostValues : public testing::TestWithParam<Shape> {};

// Fails with a wrong formula, sign, tile edge, split merge, chunk edge (v > 1024), depth block (h >
// 256), row block (n > 96), column group (h > 512) or rounding of a gradient.
TEST_P(HostValues, AreWithinADerivedBound) {
  const Shape shape = GetParam();
  Judge(TestValues::Random(shape.dtype, shape.n, shape.v, shape.h, 7));
}

// Fails if a temperature is applied in the wrong place or direction, or is left out of backward.
TEST_P(HostValues, WithARowTemperature) {
  const Shape shape = GetParam();
  TestValues values = TestValues::Random(shape.dtype, shape.n, shape.v, shape.h, 8);
  values.fp32_grads = true;
  for (int64_t i = 0; i < shape.n; ++i)
    values.temperature.push_back(0.75f + 0.3f * static_cast<float>(i % 5));
  Judge(values);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HostValues,
    testing::Values(Shape{DType::kF32, 3, 5, 4}, Shape{DType::kF32, 1, 1, 1},
                    Shape{DType::kBf16, 7, 65, 33}, Shape{DType::kF16, 5, 129, 17},
                    Shape{DType::kF32, 2, 1200, 9}, Shape{DType::kBf16, 3, 2500, 31},
                    Shape{DType::kF16, 100, 70, 20}, Shape{DType::kF32, 4, 130, 300},
                    Shape{DType::kBf16, 5, 90, 600}, Shape{DType::kF32, 300, 64, 8}),
    [](const testing::TestParamInfo<Shape>& drawn) {
      const Shape& s = drawn.param;
      return std::string(Name(s.dtype)) + "_n" + std::to_string(s.n) + "_v" + std::to_string(s.v) +
             "_h" + std::to_string(s.h);
    });

// A scalar temperature equals that temperature in every row. Fails if a scalar is read as a vector.
TEST(HostValuesTest, ScalarTemperature) {
  TestValues values = TestValues::Random(DType::kF32, 4, 70, 6, 9);
  values.temperature = {1.7f};
  values.scalar_temperature = true;
  Judge(values);
}

// Exact logits have a common offset of 2^16, of which x_y - lse would lose 2^-8. Fails with that
// formula.
TEST(HostValuesTest, CommonOffsetCostsNothing) {
  TestValues values = TestValues::Random(DType::kF32, 1, 3, 2, 1);
  values.hidden = {1, 1};
  values.weight = {65536, 0, 65536, 0.25f, 65536, -0.5f};
  values.labels = {2};
  PlacedProblem placed(values);
  ASSERT_TRUE(Compute(placed).ok());
  const Real s = std::exp(-0.25L) + 1 + std::exp(-0.75L);
  ExpectNear("logprob", 0, placed.Outputs().logprob[0], -0.75L - std::log(s), 4e-7L);
}

// loss = -sum logprob, or its mean over the rows not ignored, and g = -gamma or -gamma / n. Fails with
// a wrong sign, a wrong n (ignored rows counted), or a reduction that is taken for the other.
TEST(HostValuesTest, ReducedLossAndItsGradient) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    TestValues values = TestValues::Random(DType::kF32, 5, 40, 6, 3);
    values.labels[1] = -100;
    TestValues rows = values.Rows({0, 2, 3, 4});
    rows.g.assign(4, reduction == Reduction::kSum ? -0.75f : -0.75f / 4);
    values.reduction = reduction;
    values.g = {0.75f};
    PlacedProblem placed(values), expected(rows);
    ASSERT_TRUE(Compute(placed).ok());
    ASSERT_TRUE(Compute(expected).ok());
    const TestOutputs out = placed.Outputs(), want = expected.Outputs();
    Real loss = 0;
    for (uint32_t bits : want.logprob) loss -= Real{TestOutputs::Float(bits)};
    if (reduction == Reduction::kMean) loss /= 4;
    ExpectNear("loss", 0, out.loss[0], loss, 1.01L * kU * std::fabs(loss));
    EXPECT_EQ(out.grad_weight, want.grad_weight);
  }
}

// Fails if H = 0, which has no dot product to start from, does not give ln V, or if V = 1 does not give
// exact zeros.
TEST(HostValuesTest, DegenerateShapes) {
  TestValues none = TestValues::Random(DType::kF32, 2, 300, 0, 4);
  PlacedProblem placed(none);
  ASSERT_TRUE(Compute(placed).ok());
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<size_t>(i);
    ExpectNear("lse", at, placed.Outputs().lse[at], std::log(300.0L), 4 * kU * 6);
    ExpectNear("entropy", at, placed.Outputs().entropy[at], std::log(300.0L), 4 * kU * 6);
    ExpectNear("logprob", at, placed.Outputs().logprob[at], -std::log(300.0L), 4 * kU * 6);
  }
  TestValues one = TestValues::Random(DType::kF16, 3, 1, 9, 5);
  PlacedProblem single(one);
  ASSERT_TRUE(Compute(single).ok());
  for (uint32_t bits : single.Outputs().logprob) EXPECT_EQ(bits, 0u);
  for (uint32_t bits : single.Outputs().entropy) EXPECT_EQ(bits, 0u);
  for (uint32_t bits : single.Outputs().grad_weight) EXPECT_EQ(TestOutputs::Float(bits), 0.0f);
}

}  // namespace
}  // namespace plumbline::kernel

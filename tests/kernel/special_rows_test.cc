// SPDX-License-Identifier: Apache-2.0
//
// Every row of the table "Rows and values that are special" of kernel/OPERATION.md, and the faults that
// only the data show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/support/infinite_label.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kNaNBits = 0x7fc0'0000;

TestValues Base(DType dtype = DType::kF32) { return TestValues::Random(dtype, 6, 77, 10, 21); }

// Expects rows other than `except` to have the bits that they have in `want`.
void ExpectOtherRowsEqual(const TestOutputs& got, const TestOutputs& want, size_t except, size_t h) {
  for (size_t i = 0; i < got.lse.size(); ++i) {
    if (i == except) continue;
    if (!got.logprob.empty()) {
      EXPECT_EQ(got.logprob[i], want.logprob[i]) << "row " << i;
    }
    EXPECT_EQ(got.entropy[i], want.entropy[i]) << "row " << i;
    EXPECT_EQ(got.lse[i], want.lse[i]) << "row " << i;
    for (size_t d = 0; d < h; ++d) {
      EXPECT_EQ(got.grad_hidden[i * h + d], want.grad_hidden[i * h + d]) << "row " << i;
    }
  }
}

void ExpectRow(const TestOutputs& got, size_t row, size_t h, uint32_t forward, uint32_t gradient) {
  if (!got.logprob.empty()) {
    EXPECT_EQ(got.logprob[row], forward);
  }
  EXPECT_EQ(got.entropy[row], forward);
  EXPECT_EQ(got.lse[row], forward);
  for (size_t d = 0; d < h; ++d) EXPECT_EQ(got.grad_hidden[row * h + d], gradient);
}

// An ignored row is full of NaN, with a NaN temperature and NaN gradients. Its outputs are zeros, and
// grad_weight is as if the row were not there. Fails if it is multiplied by zero, counted, or checked
// before its label.
TEST(SpecialRowsTest, IgnoredRowsReachNothing) {
  TestValues values = Base(DType::kBf16);
  values.temperature.assign(6, 1.5f);
  const TestOutputs clean = Computed(values);
  for (int64_t d = 0; d < 10; ++d) values.Hidden(2, d) = d % 2 == 0 ? kNaN : kInf;
  values.labels[2] = -100;
  values.temperature[2] = values.g[2] = values.k[2] = kNaN;
  const TestOutputs out = Computed(values);
  ExpectRow(out, 2, 10, 0, 0);
  ExpectOtherRowsEqual(out, clean, 2, 10);
  EXPECT_EQ(out.grad_weight, Computed(values.Rows({0, 1, 3, 4, 5})).grad_weight);
  EXPECT_EQ(out.first_invalid_row, -1);
}

// ignore_index may be a valid label. Fails if the range is checked first, or if the label is looked up.
TEST(SpecialRowsTest, IgnoreIndexInsideTheVocabulary) {
  TestValues values = Base();
  values.ignore_index = 5;
  values.labels = {5, 1, 5, 2, 3, 4};
  const TestOutputs out = Computed(values);
  ExpectRow(out, 0, 10, 0, 0);
  ExpectRow(out, 2, 10, 0, 0);
  EXPECT_NE(out.logprob[1], 0u);
}

// All rows are ignored, under every reduction. This is also the only way in which V = 0 is valid. Fails
// if a gradient is left unwritten, a loss is 0/0, or a zero is negative.
TEST(SpecialRowsTest, AllRowsIgnored) {
  for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    for (const int64_t v : {int64_t{0}, int64_t{9}}) {
      TestValues values = TestValues::Random(DType::kF32, 3, v, 4, 1);
      values.labels.assign(3, -100);
      values.reduction = reduction;
      if (reduction != Reduction::kNone) values.g = {1};
      PlacedProblem placed(values);
      const Status status = Compute(placed);
      ASSERT_TRUE(status.ok()) << status.message;
      const TestOutputs out = placed.Outputs();
      for (const auto* bits :
           {&out.logprob, &out.loss, &out.entropy, &out.lse, &out.grad_hidden, &out.grad_weight}) {
        for (uint32_t b : *bits) EXPECT_EQ(b, 0u);
      }
      EXPECT_EQ(out.grad_weight.size(), static_cast<size_t>(4 * v));
    }
  }
}

// Without rows the loss is 0 and grad_weight all +0. Fails if any output present is left as it was.
TEST(SpecialRowsTest, NoRows) {
  TestValues values = TestValues::Random(DType::kBf16, 0, 12, 4, 1);
  values.reduction = Reduction::kMean;
  values.g = {1};
  const TestOutputs out = Computed(values);
  EXPECT_EQ(out.loss, std::vector<uint32_t>{0});
  EXPECT_EQ(out.grad_weight, std::vector<uint32_t>(48, 0));
  EXPECT_EQ(out.first_invalid_row, -1);
}

// g = k = 0, of either sign, leaves a row of NaN out of backward alone. Fails if the row is multiplied
// by zero.
TEST(SpecialRowsTest, ZeroGradientsLeaveARowOut) {
  TestValues values = Base();
  const TestOutputs clean = Computed(values);
  values.Hidden(4, 3) = kNaN;
  values.g[4] = -0.0f;
  values.k[4] = 0;
  const TestOutputs out = Computed(values);
  ExpectRow(out, 4, 10, kNaNBits, 0);
  ExpectOtherRowsEqual(out, clean, 4, 10);
  EXPECT_EQ(out.grad_weight, Computed(values.Rows({0, 1, 2, 3, 5})).grad_weight);
}

// NaN or infinity in a hidden row affects that row alone. Fails if a maximum drops the NaN or if a
// neighbour changes.
TEST(SpecialRowsTest, BadHiddenStaysInItsRow) {
  for (const float bad : {kNaN, kInf, -kInf}) {
    TestValues values = Base();
    const TestOutputs clean = Computed(values);
    values.Hidden(1, 3) = bad;
    const TestOutputs out = Computed(values);
    ExpectRow(out, 1, 10, kNaNBits, kNaNBits);  // random weights give logits of both infinite signs
    ExpectOtherRowsEqual(out, clean, 1, 10);
  }
}

// One NaN column is found wherever it lies: in a tile of its own past 64, beside others, in any split.
// Fails if a maximum prefers numbers, or if m = -inf is taken to mean no columns.
TEST(SpecialRowsTest, NaNWeightRowReachesEveryRow) {
  for (const int64_t v : {65, 129, 1025}) {
    for (const int64_t bad : {int64_t{0}, int64_t{63}, v - 1}) {
      TestValues values = TestValues::Random(DType::kF32, 3, v, 4, 2);
      values.Weight(bad, 1) = kNaN;
      const TestOutputs out = Computed(values);
      for (size_t i = 0; i < 3; ++i) ExpectRow(out, i, 4, kNaNBits, kNaNBits);
    }
  }
}

// All other columns are -inf, and one is NaN. Fails if the result is not NaN.
TEST(SpecialRowsTest, NaNAmongMinusInfinities) {
  TestValues values = TestValues::Random(DType::kF32, 1, 130, 1, 2);
  values.hidden = {1};
  values.weight.assign(130, -kInf);
  values.weight[129] = kNaN;
  values.labels = {0};
  ExpectRow(Computed(values), 0, 1, kNaNBits, kNaNBits);
}

// A logit of -inf has weight exactly 0: the row is what it is without the column, tile by tile. Fails
// with (-inf) - (-inf), with 0 * inf in the entropy, or if a whole tile of -inf makes the state NaN.
TEST(SpecialRowsTest, MinusInfinityHasNoWeight) {
  TestValues values = TestValues::Random(DType::kF32, 1, 200, 2, 3);
  values.hidden = {1, 0.5f};
  values.labels = {150};
  values.g = {0.7f};
  values.k = {0.3f};
  for (int64_t j = 0; j < 200; ++j) {
    values.Weight(j, 0) = j < 128 || j % 3 != 0 ? -kInf : 0.1f * static_cast<float>(j - 150);
    values.Weight(j, 1) = 1;
  }
  TestValues kept = values;
  kept.v = 0;
  kept.weight.clear();
  for (int64_t j = 0; j < 200; ++j) {
    if (std::isinf(values.Weight(j, 0))) continue;
    if (j == 150) kept.labels = {kept.v};
    kept.weight.insert(kept.weight.end(), {values.Weight(j, 0), values.Weight(j, 1)});
    ++kept.v;
  }
  const TestOutputs out = Computed(values), want = Computed(kept);
  const auto close = [](uint32_t a,
                        uint32_t b) {  // another grouping of 24 terms has at most 24 roundings
    const float x = TestOutputs::Float(a), y = TestOutputs::Float(b);
    return std::fabs(x - y) <= 24 * 0x1p-23f * std::max(std::fabs(x), std::fabs(y));
  };
  EXPECT_TRUE(close(out.logprob[0], want.logprob[0]));
  EXPECT_TRUE(close(out.entropy[0], want.entropy[0]));
  EXPECT_TRUE(close(out.lse[0], want.lse[0]));
  for (int64_t j = 0; j < 200; ++j) {
    if (!std::isinf(values.Weight(j, 0))) continue;
    EXPECT_EQ(TestOutputs::Float(out.grad_weight[static_cast<size_t>(2 * j)]), 0) << j;
  }
  EXPECT_EQ(out.grad_hidden[0], kNaNBits) << "0 * inf in the column where weight is infinite";
  EXPECT_FALSE(std::isnan(TestOutputs::Float(out.grad_hidden[1])));
}

// The label's logit is -inf. Fails if logprob is not -inf, if the entropy is not that of the other
// columns, or if the gradient is not the definition's: 0 at the label, or NaN from (-inf) - (-inf).
TEST(SpecialRowsTest, MinusInfinityAsTheLabel) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const float g : {1.0f, -2.0f}) {
      for (const float k : {0.0f, 4.0f}) {
        for (const float temperature : {1.0f, 0.25f}) {
          const TestOutputs out = Computed(InfiniteLabel(dtype, g, k, temperature));
          EXPECT_EQ(TestOutputs::Float(out.logprob[0]), -kInf);
          EXPECT_EQ(TestOutputs::Float(out.entropy[0]), 0x1.62e430p-1f);  // ln 2
          ExpectInfiniteLabel(out, g, -0.5f, temperature);
        }
      }
    }
  }
}

// The loss is +inf, and its gradient g = -gamma or -gamma / n, as everywhere. Fails if a reduction
// leaves the label's gradient out or does not divide it.
TEST(SpecialRowsTest, MinusInfinityAsTheLabelUnderReductions) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    TestValues values = InfiniteLabel(DType::kF32, 0, 1, 2);
    values.reduction = reduction;
    values.g = {4};
    const TestOutputs out = Computed(values);
    EXPECT_EQ(TestOutputs::Float(out.loss[0]), kInf);
    const float g = reduction == Reduction::kSum ? -4 : -2;
    ExpectInfiniteLabel(out, g, g, 2);
  }
}

// The label's dz is 0 where g is 0, and another column's is 0 wherever its logit is -inf. Fails if an
// infinite weight is not multiplied by such a 0, or if k moves a label of p = 0.
TEST(SpecialRowsTest, ZeroTimesAnInfiniteWeight) {
  const TestOutputs none = Computed(InfiniteLabel(DType::kF32, 0, 2, 1));
  EXPECT_EQ(none.grad_hidden[0], kNaNBits) << "g = 0";
  EXPECT_EQ(TestOutputs::Float(none.grad_hidden[1]), 0);
  EXPECT_EQ(TestOutputs::Float(none.grad_weight[2]), 0);
  TestValues values = InfiniteLabel(DType::kF32, 2, 0, 1);
  values.Weight(2, 0) = -kInf;  // column 0 alone is left
  const TestOutputs two = Computed(values);
  EXPECT_EQ(two.grad_hidden[0], kNaNBits) << "column 2";
  EXPECT_EQ(TestOutputs::Float(two.grad_hidden[1]), 4);  // dz = (-2, 2, 0)
  EXPECT_EQ(TestOutputs::Float(two.grad_weight[2]), 2);
}

// All logits are -inf, or some are +inf. Fails if a row is not NaN, in tiles and splits alike, for
// example because an empty sum passes for 1.
TEST(SpecialRowsTest, NoSoftmaxGivesNaN) {
  for (const int64_t v : {1, 64, 700}) {
    for (const bool all : {true, false}) {
      TestValues values = TestValues::Random(DType::kBf16, 1, v, 1, 3);
      values.hidden = {1};
      if (all) {
        values.weight.assign(static_cast<size_t>(v), -kInf);
      } else {
        values.weight.back() = kInf;
      }
      values.labels = {0};
      ExpectRow(Computed(values), 0, 1, kNaNBits, kNaNBits);
    }
  }
}

// Logits near the ends of fp32 are ordinary numbers. Fails with a sentinel such as -1e30, or if the
// maximum starts from 0.
TEST(SpecialRowsTest, HugeLogits) {
  for (const float scale : {-1e37f, 1e37f}) {
    TestValues values = TestValues::Random(DType::kF32, 1, 66, 1, 3);
    values.hidden = {scale};
    values.weight.assign(66, 2);
    values.weight[65] = scale > 0 ? 3 : 1;
    values.labels = {65};
    values.g = {1};
    values.k = {1};
    const TestOutputs out = Computed(values);
    EXPECT_EQ(out.logprob[0], 0u);
    EXPECT_EQ(out.entropy[0], 0u);
    EXPECT_EQ(TestOutputs::Float(out.lse[0]), scale * values.weight[65]);
  }
}

struct BadRow {
  int64_t label;
  float temperature;
  const char* message;
};

class InvalidRow : public testing::TestWithParam<BadRow> {};

// Exactly that row is NaN, as are grad_weight and the loss. The other rows keep their bits, and the
// message names the argument and its value. Fails if the fault is silent, stops the others, or is
// judged by the row's gradients.
TEST_P(InvalidRow, IsNaNAndReported) {
  TestValues values = Base();
  values.temperature.assign(6, 2);
  const TestOutputs clean = Computed(values);
  values.labels[3] = GetParam().label;
  values.temperature[3] = GetParam().temperature;
  values.g[3] = values.k[3] = 0;
  PlacedProblem placed(values);
  const Status status = Compute(placed);
  EXPECT_EQ(status.code, Code::kInvalidData);
  EXPECT_EQ(status.message, GetParam().message);
  const TestOutputs out = placed.Outputs();
  EXPECT_EQ(out.first_invalid_row, 3);
  ExpectRow(out, 3, 10, kNaNBits, kNaNBits);
  ExpectOtherRowsEqual(out, clean, 3, 10);
  for (uint32_t bits : out.grad_weight) EXPECT_EQ(bits, kNaNBits);

  values.reduction = Reduction::kSum;
  values.g = {1};
  EXPECT_EQ(Computed(values).loss, std::vector<uint32_t>{kNaNBits});
}

INSTANTIATE_TEST_SUITE_P(
    SpecialRows, InvalidRow,
    testing::Values(BadRow{77, 2, "labels[3] = 77 is outside [0, 77)"},
                    BadRow{-1, 2, "labels[3] = -1 is outside [0, 77)"},
                    BadRow{INT64_MIN, 2, "labels[3] = -9223372036854775808 is outside [0, 77)"},
                    BadRow{5, 0, "temperature[3] = 0 is not finite and positive"},
                    BadRow{5, -2, "temperature[3] = -2 is not finite and positive"},
                    BadRow{5, kInf, "temperature[3] = inf is not finite and positive"},
                    BadRow{5, kNaN, "temperature[3] = nan is not finite and positive"}));

// V = 0 with a label to look up is a fault of that label. Fails if a gradient of such a row is left
// unwritten.
TEST(SpecialRowsTest, EmptyVocabularyWithALabel) {
  TestValues values = TestValues::Random(DType::kF32, 2, 0, 3, 1);
  values.labels = {-100, 0};
  PlacedProblem placed(values);
  const Status status = Compute(placed);
  EXPECT_EQ(status.code, Code::kInvalidData);
  EXPECT_EQ(status.message, "labels[1] = 0 is outside [0, 0)");
  ExpectRow(placed.Outputs(), 0, 3, 0, 0);
  ExpectRow(placed.Outputs(), 1, 3, kNaNBits, kNaNBits);
}

// Without any upstream gradient, every gradient is +0. Fails if one is left unwritten.
TEST(SpecialRowsTest, AbsentUpstreamGradients) {
  TestValues values = Base();
  values.g.clear();
  values.k.clear();
  const TestOutputs out = Computed(values);
  for (uint32_t bits : out.grad_hidden) EXPECT_EQ(bits, 0u);
  for (uint32_t bits : out.grad_weight) EXPECT_EQ(bits, 0u);
}

// Subnormal operands count. Fails if they are flushed, which would make every logit 0.
TEST(SpecialRowsTest, SubnormalInputsAreHonoured) {
  TestValues values = TestValues::Random(DType::kF32, 1, 2, 1, 1);
  values.hidden = {0x1p-130f};
  values.weight = {0x1p127f, 0};
  values.temperature = {0x1p-3f};
  values.labels = {0};
  const float expected = -std::log1p(std::exp(-1.0f));
  EXPECT_NEAR(TestOutputs::Float(Computed(values).logprob[0]), expected, 2e-7f);
  TestValues half = TestValues::Random(DType::kF16, 1, 2, 1, 1);
  half.hidden = {0x1p-24f};
  half.weight = {0x1p15f, 0};
  half.temperature = {0x1p-9f};
  half.labels = {0};
  EXPECT_NEAR(TestOutputs::Float(Computed(half).logprob[0]), expected, 2e-7f);
}

}  // namespace
}  // namespace plumbline::kernel

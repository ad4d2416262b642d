// SPDX-License-Identifier: Apache-2.0
//
// Exponents in fp16, which backward of bf16 problems has in the place of logits
// (kernel/OPERATION.md, "Kept exponents"). Gradients are compared with numbers that follow from the
// definition: T is log2 e times a power of two, so that exponents are logits over that power, and those
// that are integers have exact weights.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/dtype.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class GpuExponents : public OnEachPath {
 protected:
  // Forward saves the last `columns` of the vocabulary, rounded down to a multiple of 64 if these are
  // not all.
  static TestOutputs Saving(const TestValues& values, int64_t columns, KeptForm form) {
    PlacedProblem placed(values);
    DeviceProblem device(placed.problem(), placed.results());
    Execution execution = On();
    execution.kept_form = form;
    const int64_t whole = (columns + 63) / 64 * 64;
    execution.saved_logits_bytes =
        static_cast<size_t>(values.n * whole * (form == KeptForm::kDefault ? 2 : 4));
    DeviceCall call(device, execution);
    const Status status = call.Run();
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(device.Fetch().empty());
    EXPECT_TRUE(call.GuardsIntact());
    return placed.Outputs();
  }
};

// A row of logits, each the sum of two numbers of bf16.
struct Logit {
  float a, b;
};
TestValues OneRow(const std::vector<Logit>& logits, float temperature, float g, float k) {
  TestValues values;
  values.dtype = DType::kBf16;
  values.n = 1;
  values.v = static_cast<int64_t>(logits.size());
  values.h = 2;
  values.hidden = {1, 1};
  for (const Logit& z : logits) {
    values.weight.push_back(z.a);
    values.weight.push_back(z.b);
  }
  values.labels = {values.v - 1};
  values.temperature = {temperature};
  values.scalar_temperature = true;
  values.g = {g};
  values.k = {k};
  values.fp32_grads = true;
  return values;
}

// Returns dz of a column, which grad_weight of a single row of ones has.
float Dz(const TestOutputs& outputs, int64_t column) {
  return TestOutputs::Float(outputs.grad_weight[static_cast<size_t>(2 * column)]);
}

// Every multiple of 64 columns is kept in turn, so that the first kept one lies at any place of a tile
// of either width. Fails if an element depends on whether it is kept, if a tile's maximum leaves out
// columns of which only some are kept, or if an offset is another tile's.
TEST_P(GpuExponents, OfEveryNumberOfKeptColumnsHaveTheSameBits) {
  for (const float spread : {2.0f, 40.0f}) {
    for (const bool special : {false, true}) {
      TestValues values = TestValues::Random(DType::kBf16, 77, 1003, 45, 21, spread);
      values.labels[3] = values.ignore_index;
      values.g[9] = values.k[9] = 0;
      for (int64_t i = 0; i < values.n; ++i)
        values.temperature.push_back(0.5f + 0.03125f * static_cast<float>(i % 40));
      if (special) {
        values.Hidden(5, 1) = std::numeric_limits<float>::quiet_NaN();
        values.Hidden(6, 1) = kInfinity;
        values.labels[7] = values.v;
        values.Weight(400, 2) = -kInfinity;
      }
      const TestOutputs none = Saving(values, 0, KeptForm::kDefault);
      for (int64_t columns = 64; columns < values.v + 64; columns += 64) {
        EXPECT_TRUE(Saving(values, columns, KeptForm::kDefault) == none)
            << "spread " << spread << " special " << special << " columns " << columns;
      }
      const TestOutputs logits = Saving(values, 0, KeptForm::kLogits);
      EXPECT_EQ(logits.logprob, none.logprob);
      EXPECT_EQ(logits.entropy, none.entropy);
      EXPECT_EQ(logits.lse, none.lse);
      EXPECT_NE(logits.grad_hidden, none.grad_hidden);
      EXPECT_TRUE(Saving(values, values.v, KeptForm::kLogits) == logits);
    }
  }
}

// Exponents halfway between two numbers of fp16. Fails if they are rounded otherwise, or together with
// the tile's offset, if a weight that is 0 is not, or if logits are rounded too.
TEST_P(GpuExponents, AreRoundedToFp16FromTheirTilesMaximum) {
  std::vector<Logit> logits(1003, {-300, 0});
  logits[5] = {0, 0};              // the row's maximum, and that of its tile
  logits[6] = {-64, -0x1p-5f};     // -64 in fp16
  logits[7] = {-250, 0};           // at least -200
  logits[384] = {-40, 0};          // the maximum of a tile of 192 and of one of 128
  logits[385] = {-72, -0x1p-6f};   // 32 + 2^-6 below it: 32 in fp16
  logits[386] = {-104, -0x1p-5f};  // 64 + 2^-5 below it: 64
  for (size_t v = 768; v < 960; ++v) logits[v] = {-kInfinity, 0};
  const TestValues values = OneRow(logits, kLog2E, 1, 0);
  const float level = -1.0f / kLog2E;
  const auto in_bf16 = [](float x) { return ToFloat(ToBFloat16(x)); };
  for (const int64_t columns : {0, 320, 640, 1003}) {
    SCOPED_TRACE(columns);
    const TestOutputs found = Saving(values, columns, KeptForm::kDefault);
    EXPECT_EQ(Dz(found, 5), in_bf16(level));
    EXPECT_EQ(Dz(found, 6), in_bf16(level) * 0x1p-64f);
    EXPECT_EQ(Dz(found, 384), in_bf16(level) * 0x1p-40f);
    EXPECT_EQ(Dz(found, 385), in_bf16(level) * 0x1p-72f);
    EXPECT_EQ(Dz(found, 386), in_bf16(level) * 0x1p-104f);
    for (const int64_t v : {0, 7, 383, 387, 600, 767, 768, 900, 959, 1001})
      EXPECT_EQ(Dz(found, v), 0.0f) << v;
    EXPECT_EQ(Dz(found, 1002), in_bf16(-level));  // the label
    const TestOutputs unrounded = Saving(values, columns, KeptForm::kLogits);
    EXPECT_EQ(Dz(unrounded, 5), in_bf16(level));
    EXPECT_EQ(Dz(unrounded, 384), in_bf16(level) * 0x1p-40f);
    for (const int64_t v : {6, 385, 386}) {
      const Logit& z = logits[static_cast<size_t>(v)];
      const float want = static_cast<float>(std::exp2(static_cast<double>(z.a + z.b))) * level;
      EXPECT_NEAR(Dz(unrounded, v), want, std::abs(want) * 0x1p-8f) << v;
      EXPECT_NE(Dz(unrounded, v), Dz(found, v)) << v;
    }
  }
}

// dz of k H where all exponents are near 0: p (k / T) ln 2 (|y| - mean |y|). Fails if numbers of fp16
// below its normal ones become 0, or are not rounded to a multiple of 2^-24.
TEST_P(GpuExponents, BelowTheNormalNumbersOfFp16AreKept) {
  constexpr int64_t kColumns = 1000;
  const float temperature = std::ldexp(kLog2E, 90), k = 0x1p60f;
  const double unit =
      static_cast<double>(k) / static_cast<double>(temperature) * std::log(2.0) / kColumns;
  std::vector<Logit> logits(kColumns, {0, 0});
  for (size_t v = 1; v < kColumns; v += 2) logits[v] = {-0x1p74f, 0};  // an exponent of -2^-16
  const TestValues halves = OneRow(logits, temperature, 0, k);
  logits.assign(kColumns, {0, 0});
  logits[700] = {-0x1.4p66f, 0};  // 1.25 * 2^-24
  const TestValues one = OneRow(logits, temperature, 0, k);
  for (const int64_t columns : {int64_t{0}, int64_t{320}, kColumns}) {
    SCOPED_TRACE(columns);
    const TestOutputs found = Saving(halves, columns, KeptForm::kDefault);
    for (int64_t v = 0; v < kColumns - 1; ++v) {
      const double want = (v % 2 == 0 ? -unit : unit) * 0x1p-17;
      ASSERT_NEAR(static_cast<double>(Dz(found, v)), want, std::abs(want) * 0.01) << v;
    }
    const auto of_one = [&](KeptForm form) {
      return static_cast<double>(Dz(Saving(one, columns, form), 700));
    };
    EXPECT_NEAR(of_one(KeptForm::kDefault), unit * 0x1p-24, unit * 0x1p-24 * 0.01);
    EXPECT_NEAR(of_one(KeptForm::kLogits), unit * 0x1.4p-24, unit * 0x1.4p-24 * 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuExponents, EachPath(), PathName);

}  // namespace
}  // namespace plumbline::kernel::device

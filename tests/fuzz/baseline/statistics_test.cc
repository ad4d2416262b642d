// SPDX-License-Identifier: Apache-2.0

#include "fuzz/baseline/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plumbline::fuzz {
namespace {

Units Of(std::vector<double> error, std::vector<std::vector<double>> baseline, double floor = 0) {
  Units units;
  units.floor.assign(error.size(), floor);
  units.error = std::move(error);
  units.baseline = std::move(baseline);
  return units;
}

// Fails if one row that a baseline happens to get right makes an honest target suspect.
TEST(HonestUnits, NoRowIsJudgedByItself) {
  std::vector<double> mine(16, 1), theirs(16, 1);
  theirs[3] = 1e-9;
  EXPECT_FALSE(Compare(Of(mine, {theirs})).Suspect());
}

// Fails if the scale is that of the best baseline, or of the mean.
TEST(HonestUnits, TheWorstBaselineIsTheScale) {
  const HonestUnits units = Compare(
      Of(std::vector<double>(16, 6), {std::vector<double>(16, 0.1), std::vector<double>(16, 1)}));
  EXPECT_DOUBLE_EQ(units.rms, 6);
  EXPECT_EQ(units.baseline, 1U);
  EXPECT_FALSE(units.Suspect());
  EXPECT_TRUE(units.Noted());
}

// Fails if a few rows that are far off, or most rows that are off by little, are not seen.
TEST(HonestUnits, FewLargeAndManySmallErrorsAreSeen) {
  std::vector<double> few(100, 0), honest(100, 1);
  few[50] = 100;
  EXPECT_TRUE(Compare(Of(few, {honest})).Suspect());
  // One honest row errs much more than the rest, so that only the median tells.
  honest[50] = 1e6;
  const HonestUnits many = Compare(Of(std::vector<double>(100, 20), {honest}));
  EXPECT_LT(many.rms, 1);
  EXPECT_LT(many.largest, 1);
  EXPECT_TRUE(many.Suspect());
}

// Fails if a handful of rows is judged as many are: a realised error of any of them may be near 0 by
// chance; or if it is not judged at all.
TEST(HonestUnits, FewUnitsAreJudgedByAnEighth) {
  EXPECT_FALSE(Compare(Of(std::vector<double>(7, 60), {std::vector<double>(7, 1)})).Suspect());
  EXPECT_TRUE(Compare(Of(std::vector<double>(7, 70), {std::vector<double>(7, 1)})).Suspect());
  EXPECT_TRUE(Compare(Of(std::vector<double>(8, 100), {std::vector<double>(8, 1)})).Suspect());
  EXPECT_FALSE(Compare(Of({}, {{}})).Suspect());
}

// Fails if units that carry all errors, in which the baseline happens to err little, make an honest
// target suspect; or if they are not judged at all, or not as their number allows.
TEST(HonestUnits, WhatFewUnitsCarryIsJudgedByLess) {
  std::vector<double> honest(100, 1), mine(100, 1);
  const auto suspect = [&](double error) {
    mine[7] = error;
    return Compare(Of(mine, {honest})).Suspect();
  };
  for (size_t carrying = 1; carrying <= 4; ++carrying) {
    honest[6 + carrying] = 1000;  // an eighth
    EXPECT_FALSE(suspect(60000)) << carrying;
    EXPECT_TRUE(suspect(70000 * std::sqrt(carrying))) << carrying;
  }
  honest[11] = honest[12] = 1000;  // six: a half
  EXPECT_FALSE(suspect(15000));
  EXPECT_TRUE(suspect(17000));
  EXPECT_DOUBLE_EQ(Compare(Of(mine, {honest})).Ratio(), 17);
  honest[13] = honest[14] = 1000;  // eight
  EXPECT_FALSE(suspect(7900));
  EXPECT_TRUE(suspect(8100));
}

// Fails if what one rounding costs makes a target suspect that a baseline happens to beat in each row.
TEST(HonestUnits, TheFloorIsPartOfTheScale) {
  EXPECT_FALSE(Compare(Of(std::vector<double>(16, 1), {std::vector<double>(16, 0)}, 0.5)).Suspect());
  EXPECT_TRUE(Compare(Of(std::vector<double>(16, 1), {std::vector<double>(16, 0)}, 0.1)).Suspect());
}

// Fails if half a unit in the last place of another dtype is left out.
TEST(HonestUnits, RoundingIsTakenOut) {
  EXPECT_EQ(BeyondRounding(1 + 0x1p-9, 1, kernel::DType::kBf16), 0x1p-9 - 0x1p-9);
  EXPECT_EQ(BeyondRounding(1 + 0x1p-7, 1, kernel::DType::kBf16), 0x1p-7 - 0x1p-8);
  EXPECT_EQ(BeyondRounding(1 + 0x1p-10, 1, kernel::DType::kF16), 0x1p-10 - 0x1p-11);
  EXPECT_EQ(BeyondRounding(1 + 0x1p-20, 1, kernel::DType::kF32), 0x1p-20 - 0x1p-24);
  // 0 and what is subnormal have the unit of the least normal number.
  EXPECT_EQ(BeyondRounding(0x1p-24, 0, kernel::DType::kF16), 0x1p-24 - 0x1p-25);
  EXPECT_EQ(BeyondRounding(-0x1p-120, 0x1p-1060, kernel::DType::kBf16), 0x1p-120 - 0x1p-134);
  EXPECT_EQ(BeyondRounding(-1.5, -1, kernel::DType::kBf16), 0.5 - 0x1p-8);
  EXPECT_TRUE(std::isnan(BeyondRounding(NAN, 1, kernel::DType::kF32)));
  EXPECT_TRUE(std::isnan(BeyondRounding(1, NAN, kernel::DType::kF32)));
}

}  // namespace
}  // namespace plumbline::fuzz

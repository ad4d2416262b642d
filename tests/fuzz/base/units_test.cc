// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Fails if a unit is read as another, if a number wraps around, or if text after the unit is ignored.
TEST(Budgets, AreReadAsWritten) {
  std::string error;
  EXPECT_EQ(ParseBudget("60s", &error), (Budget{60'000ms, 0}));
  EXPECT_EQ(ParseBudget("10m", &error), (Budget{600'000ms, 0}));
  EXPECT_EQ(ParseBudget("2h", &error), (Budget{7'200'000ms, 0}));
  EXPECT_EQ(ParseBudget("250ms", &error), (Budget{250ms, 0}));
  EXPECT_EQ(ParseBudget("5000cases", &error), (Budget{0ms, 5000}));
  EXPECT_EQ(ParseBudget("5min", &error), (Budget{300'000ms, 0}));
  EXPECT_EQ(ParseBudget("60sec", &error), (Budget{60'000ms, 0}));
  for (const char* bad : {"", "s", "60", "0s", "-5s", "60 s", "60secs", "1.5h", "5cases!",
                          "99999999999999999999s", "9223372036854775807h", "0cases"}) {
    EXPECT_FALSE(ParseBudget(bad, &error)) << bad;
    EXPECT_THAT(error, HasSubstr(bad));
  }
  for (const char* text : {"60s", "90s", "2h", "250ms", "5000cases"}) {
    const auto budget = ParseBudget(text, &error);
    EXPECT_EQ(ParseBudget(Format(*budget), &error), budget) << text;
  }
}

// Fails if a time accepts cases, or an error about one speaks of them.
TEST(Times, AreNoCases) {
  std::string error;
  EXPECT_EQ(ParseTime("2min", &error), 120'000ms);
  for (const char* bad : {"5", "5cases", "", "5y"}) {
    EXPECT_FALSE(ParseTime(bad, &error)) << bad;
    EXPECT_EQ(error.find("cases", std::string(bad).size() + 1), error.npos) << error;
  }
}

// Fails if a part outside its whole is accepted, or if two parts belong to different wholes.
TEST(Shards, AreAPartOfAWhole) {
  std::string error;
  EXPECT_EQ(ParseShard("0/1", &error), (Shard{0, 1}));
  EXPECT_EQ(ParseShard("3/4", &error), (Shard{3, 4}));
  EXPECT_EQ(Format(Shard{3, 4}), "3/4");
  for (const char* bad :
       {"", "1", "/", "1/", "/2", "2/2", "-1/2", "0/0", "1/2/3", "0/2x", "0/9999999"}) {
    EXPECT_FALSE(ParseShard(bad, &error)) << bad;
    EXPECT_THAT(error, HasSubstr(bad));
  }
}

// Fails if a size without a unit, with another unit or beyond int64 is accepted, or if an error does
// not quote it.
TEST(Sizes, HaveAUnit) {
  std::string error;
  EXPECT_EQ(ParseBytes("4GiB", &error), int64_t{4} << 30);
  EXPECT_EQ(ParseBytes("512MiB", &error), int64_t{512} << 20);
  EXPECT_EQ(ParseBytes("0", &error), 0);
  for (const char* bad : {"", "4", "4GB", "-1GiB", "GiB", "99999999999999GiB", "1GiB2"}) {
    EXPECT_FALSE(ParseBytes(bad, &error)) << bad;
    EXPECT_THAT(error, HasSubstr(bad));
  }
}

// Fails if a seed above int64 is lost, or if a sign, a blank or other text is accepted.
TEST(Seeds, AreDecimalOrHexadecimal) {
  std::string error;
  EXPECT_EQ(ParseSeed("18446744073709551615", &error), ~uint64_t{0});
  EXPECT_EQ(ParseSeed("0xFFFFFFFFFFFFFFFE", &error), ~uint64_t{1});
  EXPECT_EQ(ParseSeed("10", &error), 10U);
  for (const char* bad : {"", "0x", "-1", "1x", "18446744073709551616", " 1"}) {
    EXPECT_FALSE(ParseSeed(bad, &error)) << bad;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/false_alarms/tally.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/false_alarms/draw.h"

namespace plumbline::false_alarms {
namespace {

using oracle::Output;

const Members& AllMembers() {
  static const Members members;
  return members;
}

fuzz::OutputErrors Errors(Output output, int64_t units, double rms, double largest) {
  fuzz::OutputErrors errors;
  errors.output = output;
  errors.units.units = units;
  errors.units.rms = rms;
  errors.units.largest = largest;
  errors.units.effective = static_cast<double>(units);
  return errors;
}

int64_t IntAt(const fuzz::Json& json, const std::vector<std::string>& path) {
  const fuzz::Json* at = &json;
  for (const std::string& key : path) at = at->Find(key);
  return *at->as_int();
}

// Fails if a problem counts once an output, if a problem without an output that is judged counts, if a
// suspect output is lost among clean ones, or if units of one that is not judged make the class.
TEST(Tally, CountsAProblemOfAKernelOnce) {
  Tally tally(AllMembers());
  tally.Add(1, {{0, {Errors(Output::kLogprob, 8, 1, 2), Errors(Output::kLse, 40, 9, 3)}}});
  tally.Add(2, {{0, {Errors(Output::kLogprob, 13, 1, 1), Errors(Output::kLse, 7, 99, 99)}}});
  tally.Add(3, {{0, {Errors(Output::kLogprob, 7, 99, 99)}}});
  const fuzz::Json json = *tally.ToJson().Find(AllMembers().all()[0].name);
  EXPECT_EQ(IntAt(json, {"verdicts"}), 2);
  EXPECT_EQ(IntAt(json, {"classes", "8", std::to_string(BinOf(9))}), 1);
  EXPECT_EQ(IntAt(json, {"classes", "12", "0"}), 1);
  ASSERT_EQ(json.Find("suspect")->as_array()->size(), 1U);
  EXPECT_EQ(IntAt(json.Find("suspect")->as_array()->front(), {"seed"}), 1);
  EXPECT_EQ(IntAt(json, {"worst", "seed"}), 1);
  const fuzz::Json::Array& lse = *json.Find("outputs")->Find("lse")->as_array();
  EXPECT_EQ(lse, (fuzz::Json::Array{1, 9.0, 0.0, 3.0}));
}

// Fails if a ratio of exactly the threshold and one just below share a bin.
TEST(Tally, BinsEndAtPowersOfTwo) {
  EXPECT_EQ(BinOf(8), 24);
  EXPECT_EQ(BinOf(7.99), 23);
  EXPECT_EQ(BinOf(1), 0);
  EXPECT_LT(BinOf(0), -8);
}

// Fails if a member is measured in a family that has it, or that has no baseline left.
TEST(Members, ABaselineIsNotInItsFamily) {
  int64_t baselines = 0;
  for (const Member& member : AllMembers().all()) {
    const fuzz::Family family = FamilyFor(member, kernel::DType::kBf16);
    EXPECT_FALSE(family.baselines.empty()) << member.name;
    if (!member.baseline) continue;
    ++baselines;
    EXPECT_EQ(std::ranges::count(family.baselines, BaselineOf(member, kernel::DType::kBf16)), 0)
        << member.name;
  }
  EXPECT_EQ(baselines, 7);
}

// Fails if a problem is larger than it says, has too few rows to be judged, or leaves out a dtype.
TEST(Draw, KeepsItsLimits) {
  std::vector<int64_t> dtypes(3);
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Drawn drawn = Draw(Set::kSmall, 0, 256, seed);
    EXPECT_GE(drawn.places.rows.size(), 8U) << seed;
    EXPECT_LE(drawn.problem.rows() * drawn.problem.vocab() * drawn.problem.hidden_size(), 1'000'000)
        << seed;
    ++dtypes[static_cast<size_t>(drawn.problem.hidden.dtype)];
  }
  EXPECT_GT(std::ranges::min(dtypes), 20);
}

}  // namespace
}  // namespace plumbline::false_alarms

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/selftest/kill_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::atomic<bool> kNoInterrupt{false};

MatrixRow Row(const std::string& target, std::vector<size_t> able) {
  MatrixRow row;
  row.target = target;
  row.killed_after.assign(Regimes().size(), 0);
  for (const size_t r : able) row.killed_after[r] = 5;
  return row;
}

// Fails if a mutant that no regime or only one kills is not marked, or one that two kill is.
TEST(KillMatrix, TextNamesWhatHangsOnOneRegime) {
  const std::vector<MatrixRow> rows = {Row("none", {}), Row("one", {2}), Row("two", {0, 2})};
  const std::string text = MatrixText(rows, 30);
  EXPECT_THAT(text, HasSubstr("of 30 cases"));
  EXPECT_THAT(text, HasSubstr("none: no regime kills it\n"));
  EXPECT_THAT(text, HasSubstr("one: killed by " + std::string(Regimes()[2].name) + " alone\n"));
  EXPECT_THAT(text, Not(HasSubstr("two: ")));
  EXPECT_THAT(text, HasSubstr(std::string(Regimes()[2].name) + ": kills 2 of 3\n"));
}

// Fails if a number stands under another regime's name, or a regime that kills nothing has one.
TEST(KillMatrix, JsonIsByName) {
  const Json json = MatrixJson({Row("m", {1})}, 30);
  EXPECT_EQ(*json.Find("cases")->as_int(), 30);
  EXPECT_EQ(json.Find("regimes")->as_array()->size(), Regimes().size());
  const Json& after = *json.Find("mutants")->as_array()->at(0).Find("killed_after");
  EXPECT_EQ(after.as_object()->size(), 1u);
  EXPECT_EQ(*after.Find(Regimes()[1].name)->as_int(), 5);
}

// Fails if a regime's cases are not tried on the target, or are not those of `fuzz --regime`. No regime
// kills host; a mutant whose trigger is a ragged tail is killed by the first few cases of ragged-tail.
TEST(KillMatrix, TriesEveryRegime) {
  const MatrixRow sound = TryRegimes("host", 1, 1, PLUMB_PROGRAM, kNoInterrupt);
  EXPECT_EQ(sound.trouble, "");
  EXPECT_EQ(sound.killed_after, std::vector<int64_t>(Regimes().size(), 0));
  const MatrixRow row = TryRegimes("mutant:tail-unmasked", 1, 3, PLUMB_PROGRAM, kNoInterrupt);
  ASSERT_EQ(row.killed_after.size(), Regimes().size());
  const auto ragged = std::find_if(Regimes().begin(), Regimes().end(),
                                   [](const Regime& r) { return r.name == "ragged-tail"; });
  EXPECT_GT(row.killed_after[static_cast<size_t>(ragged - Regimes().begin())], 0);
}

// Fails if a target that does not load looks like one that nothing kills.
TEST(KillMatrix, WhatDoesNotLoadSaysSo) {
  const MatrixRow row = TryRegimes("mutant:nope", 1, 1, PLUMB_PROGRAM, kNoInterrupt);
  EXPECT_THAT(row.trouble, HasSubstr("nope"));
  EXPECT_THAT(MatrixText({row}, 1), HasSubstr("nope"));
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline::fuzz {
namespace {

const std::vector<std::string> kNames = {"--target", "--budget",      "--out",
                                         "host",     "common-offset", "offset-x"};

// Fails if one exchanged, missing, added or wrong letter hides a name, or if anything is near anything.
TEST(Nearest, IsOneOrTwoLettersAway) {
  EXPECT_EQ(Nearest("--targt", kNames), "--target");
  EXPECT_EQ(Nearest("--tagret", kNames), "--target");
  EXPECT_EQ(Nearest("--budgets", kNames), "--budget");
  EXPECT_EQ(Nearest("hots", kNames), "host");
  EXPECT_EQ(Nearest("cuda", kNames), "");
  EXPECT_EQ(Nearest("", kNames), "");
  EXPECT_EQ(Nearest(std::string(10'000, 'a'), kNames), "");
}

// Fails if a part of a name finds nothing, or a part that is too short finds much.
TEST(Nearest, APartFindsItsNames) {
  EXPECT_EQ(DidYouMean("offset", kNames), " Did you mean offset-x?");
  EXPECT_EQ(DidYouMean("commo", kNames), " Did you mean common-offset?");
  EXPECT_EQ(DidYouMean("offse", kNames), " Did you mean common-offset, offset-x?");
  EXPECT_EQ(DidYouMean("o", kNames), "");
}

}  // namespace
}  // namespace plumbline::fuzz

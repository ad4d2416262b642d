// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/in_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace plumbline::fuzz {
namespace {

// Fails if a value is handed over before its turn, twice, or not once its turn has come.
TEST(InOrder, ValuesComeInTheOrderOfTheirNumbers) {
  InOrder<char> in_order;
  std::string taken;
  const auto add = [&](int64_t number, char value) {
    in_order.Add(number, value, [&](char next) { taken += next; });
    return taken;
  };
  EXPECT_EQ(add(2, 'c'), "");
  EXPECT_EQ(add(0, 'a'), "a");
  EXPECT_EQ(add(3, 'd'), "a");
  EXPECT_EQ(add(1, 'b'), "abcd");
  EXPECT_EQ(add(4, 'e'), "abcde");
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/coverage.h"

#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;

// There are five blind cases and a guided one. "a" is in three of the blind cases, "b" in two, "c" and
// "d" in one and the same; "e" is in the guided one alone. The rarest cells: cases 1 and 2 share b,
// case 3 has c and d. Fails if a case is counted by another cell than its rarest, or if a guided case
// enters the estimate.
TEST(CoverageTest, CountsCasesByTheirRarestCell) {
  Coverage coverage;
  EXPECT_EQ(coverage.Add({"a", "b"}, true, 1s), 2);
  EXPECT_EQ(coverage.Add({"a", "b"}, true, 2s), 0);
  EXPECT_EQ(coverage.Add({"c", "d"}, true, 3s), 2);
  EXPECT_EQ(coverage.Add({"a"}, true, 4s), 0);
  EXPECT_EQ(coverage.Add({"a"}, true, 5s), 0);
  EXPECT_EQ(coverage.Add({"a", "e"}, false, 6s), 1);
  EXPECT_EQ(coverage.Add({"a"}, false, 7s), 0);
  EXPECT_EQ(coverage.cells(), 5);
  EXPECT_EQ(coverage.cases(), 7);
  EXPECT_EQ(coverage.blind_cases(), 5);
  EXPECT_EQ(coverage.cases_since_new(), 1);
  EXPECT_EQ(coverage.newest(), 6s);
  const NewCellChance expected = GoodTuring(5, 1, 2);
  EXPECT_EQ(coverage.ChanceOfNew().estimate, expected.estimate);
  EXPECT_EQ(coverage.ChanceOfNew().at_most, expected.at_most);
}

// Fails if a guided case adds confidence to the estimate: it was not drawn from the mix.
TEST(CoverageTest, GuidedCasesDoNotMakeACellCommon) {
  Coverage coverage;
  coverage.Add({"a"}, true, 1s);
  for (int i = 0; i < 10; ++i) coverage.Add({"a"}, false, 1s);
  EXPECT_EQ(coverage.ChanceOfNew().estimate, 1);
}

}  // namespace
}  // namespace plumbline::fuzz

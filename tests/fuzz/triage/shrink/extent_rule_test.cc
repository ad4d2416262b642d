// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/shrink/extent_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

using ::testing::StartsWith;
using Fails = std::function<bool(int64_t)>;

// Returns the rule for a problem whose extent `now` fails, from the tries of the vocabulary's
// explanation.
Rule RuleOf(const Fails& fails, int64_t now, int64_t most = 65'536) {
  Tried tried;
  for (const int64_t x : {1,  2,  3,  4,  5,   8,   9,   15,  16,  17,  31,  32, 33,
                          63, 64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 320}) {
    tried[x] = fails(x);
  }
  tried[now] = fails(now);
  const ExtentAxis axis{
      .name = "V", .most = most, .fails = [&](int64_t x) { return std::optional(fails(x)); }};
  return FindExtentRule(axis, &tried);
}

// A rule as it is stated, read again: the extents that it says fail, and the range that it names.
struct Stated {
  Fails fails;  // empty: a list, no rule
  int64_t from = 0, to = 0;
};

Stated Read(const std::string& line) {
  Stated stated;
  long long a = 0, b = 0, c = 0;  // NOLINT: for sscanf
  if (const size_t range = line.find(" tried, "); range != std::string::npos) {
    if (std::sscanf(line.c_str() + range, " tried, %lld to %lld)", &a, &b) == 2) {
      stated.from = a, stated.to = b;
    }
  }
  const char* text = line.c_str();
  if (line.starts_with("V: any")) {
    stated.fails = [](int64_t) { return true; };
  } else if (std::sscanf(text, "V: %lld alone (each of %lld to %lld", &a, &b, &c) == 3) {
    stated = {[a](int64_t x) { return x == a; }, b, c};
  } else if (std::sscanf(text, "V: fails from %lld on, where V mod %lld is %lld", &a, &b, &c) == 3) {
    stated.fails = [=](int64_t x) { return x >= a && x % b == c; };
  } else if (std::sscanf(text, "V: fails from %lld on, unless V mod %lld is %lld", &a, &b, &c) == 3) {
    stated.fails = [=](int64_t x) { return x >= a && x % b != c; };
  } else if (std::sscanf(text, "V: fails where V mod %lld is %lld", &a, &b) == 2) {
    stated.fails = [=](int64_t x) { return x % a == b; };
  } else if (std::sscanf(text, "V: fails unless V mod %lld is %lld", &a, &b) == 2) {
    stated.fails = [=](int64_t x) { return x % a != b; };
  } else if (std::sscanf(text, "V: fails from %lld to %lld", &a, &b) == 2) {
    stated.fails = [=](int64_t x) { return x >= a && x <= b; };
  } else if (line.starts_with("V: fails from ") && std::sscanf(text, "V: fails from %lld", &a) == 1) {
    stated.fails = [=](int64_t x) { return x >= a; };
  } else if (std::sscanf(text, "V: fails up to %lld", &a) == 1) {
    stated.fails = [=](int64_t x) { return x <= a; };
  } else {
    EXPECT_THAT(line, StartsWith("V: fails for "));
  }
  return stated;
}

// 200 rules: V mod m is r for m from 2 to 256 and any r, ranges, single values. Each is asked about at
// one of its extents. Fails if a rule is stated that has a counterexample in the range that it names,
// or if half of the residues are not told from others.
TEST(ExtentRule, NoStatedRuleHasACounterexample) {
  uint64_t draws = 0;
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(Mix(0x72756c65, draws++) % static_cast<uint64_t>(below));
  };
  int stated_rules = 0, residues = 0, exact = 0;
  for (int i = 0; i < 200; ++i) {
    Fails fails;
    int64_t now = 0;
    std::string planted, word;
    if (i % 2 == 0) {
      // Every other one is a power of two, as tiles are.
      const int64_t m = i % 4 == 0 ? int64_t{1} << (1 + draw(8)) : 2 + draw(255), r = draw(m);
      fails = [=](int64_t x) { return x % m == r; };
      now = (r == 0 ? m : r) + m * draw(2);
      planted = "mod " + std::to_string(m) + " is " + std::to_string(r);
      word = "V=" + std::to_string(r) + "%" + std::to_string(m);
      ++residues;
    } else if (i % 4 == 1) {
      const int64_t from = 1 + draw(300), to = from + draw(300);
      fails = [=](int64_t x) { return x >= from && x <= to; };
      now = from + draw(to - from + 1);
      planted = "from " + std::to_string(from) + " to " + std::to_string(to);
    } else {
      const int64_t only = 1 + draw(320);
      fails = [=](int64_t x) { return x == only; };
      now = only;
      planted = "only " + std::to_string(only);
    }
    const Rule rule = RuleOf(fails, now);
    exact += !word.empty() && rule.word == word ? 1 : 0;
    const Stated stated = Read(rule.line);
    if (!stated.fails) continue;
    ++stated_rules;
    ASSERT_LT(stated.from, stated.to) << rule.line;
    for (int64_t x = stated.from; x <= stated.to; ++x) {
      ASSERT_EQ(stated.fails(x), fails(x)) << planted << " is stated as " << rule.line << " at " << x;
    }
  }
  EXPECT_GE(stated_rules, 150);
  EXPECT_GE(2 * exact, residues);
}

// Fails if a defect where V mod 8 is 1 is taken for one where V mod 4 is 1, or if a tile's tail, or a
// limit between two tries, is not found exactly.
TEST(ExtentRule, FindsTheResidueAndTheLimit) {
  EXPECT_EQ(RuleOf([](int64_t x) { return x % 8 == 1; }, 1).word, "V=1%8");
  EXPECT_EQ(RuleOf([](int64_t x) { return x % 8 == 1 && x > 1; }, 9).word, "V>=9=1%8");
  EXPECT_EQ(RuleOf([](int64_t x) { return x % 64 != 0; }, 3).word, "V!%64");
  EXPECT_EQ(RuleOf([](int64_t x) { return x % 64 != 7; }, 3).word, "V:any");  // 7 is not tried
  EXPECT_EQ(RuleOf([](int64_t x) { return x >= 77; }, 200).word, "V>=77");
  EXPECT_EQ(RuleOf([](int64_t x) { return x <= 40; }, 3).word, "V<=40");
  EXPECT_EQ(RuleOf([](int64_t x) { return x >= 40 && x <= 60; }, 50).word, "V=40..60");
  EXPECT_EQ(RuleOf([](int64_t x) { return x == 137; }, 137).word, "V=137");
}

// Fails if a rule's word, read again, says another thing than the defect does.
TEST(ExtentRule, AWordSaysWhatFails) {
  const std::vector<Fails> all = {[](int64_t) { return true; },
                                  [](int64_t x) { return x % 8 == 1; },
                                  [](int64_t x) { return x % 8 == 1 && x > 1; },
                                  [](int64_t x) { return x % 64 != 0; },
                                  [](int64_t x) { return x % 64 != 1 && x >= 9; },
                                  [](int64_t x) { return x >= 77; },
                                  [](int64_t x) { return x <= 40; },
                                  [](int64_t x) { return x >= 40 && x <= 60; },
                                  [](int64_t x) { return x == 137; }};
  for (const Fails& fails : all) {
    int64_t now = 1;
    while (!fails(now) || now % 8 != 1) ++now;
    const std::string word = RuleOf(fails, now).word;
    for (int64_t x = 1; x <= 320; ++x) EXPECT_EQ(FailsAt(word, x), fails(x)) << word << " at " << x;
  }
  // A journal that was tampered with may hold anything.
  for (const char* word : {"", "V", "V:mixed", "V=1%", "V=1%0", "V=1%-8", "V=", "V>=", "V=1..",
                           "V=1%8x", "V=99999999999999999999", "V!3", "V8"}) {
    EXPECT_EQ(FailsAt(word, 9), std::nullopt) << word;
  }
}

// Fails if a residue is stated where too few extents can be tried to tell it from finer ones, or an
// extent is tried that is not there.
TEST(ExtentRule, WhatCannotBeTriedIsAList) {
  const Fails fails = [](int64_t x) {
    EXPECT_LE(x, 320);
    return x % 64 == 1;
  };
  EXPECT_EQ(RuleOf(fails, 1, 320).line,
            "V: fails for 1, 65, 129, 193, 257; passes for 2, 3, 4, 5, 8, 9, 15, 16, ...");
}

// Fails if a rule is stated of tries that were cut short.
TEST(ExtentRule, NothingIsStatedThatCouldNotBeAsked) {
  Tried tried = {{4, false}, {5, true}, {6, false}, {9, true}, {10, false}};
  const ExtentAxis axis{
      .name = "V", .most = 320, .fails = [](int64_t) { return std::optional<bool>(); }};
  EXPECT_EQ(FindExtentRule(axis, &tried).word, "V:mixed");
}

}  // namespace
}  // namespace plumbline::fuzz

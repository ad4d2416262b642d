// SPDX-License-Identifier: Apache-2.0
//
// `plumb compare` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "fuzz/base/json.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;

class CompareCli : public testing::Program {};

constexpr const char* kTwo =
    "compare host mutant:plain-logprob --cases 60 --problems 1 --jobs 2 --out c";

// Fails if a target's row, its finding or the command that repeats it is left out, or if the folder
// that holds a comparison is not gone on with.
TEST_F(CompareCli, TwoTargetsSideBySide) {
  const Outcome both = Run(kTwo);
  EXPECT_EQ(both.status, 1) << Err();
  EXPECT_EQ(both.last, "plumb: verdict=findings cases=120 judged=120 findings=1 status=1");
  EXPECT_THAT(both.out,
              AllOf(ContainsRegex("host +clean +60 of 60 +none +none +none +yes +yes +as defined"),
                    ContainsRegex("mutant:plain-logprob +findings +60 of 60 +1"),
                    HasSubstr("wrong       bound:logprob: logprob["),
                    ContainsRegex("replay c/mutant-plain-logprob-[0-9a-f]+/findings/"),
                    ContainsRegex("host +1 of 1 +[0-9.]+ / [0-9.]+ / ")));
  const Outcome again = Run(kTwo);
  EXPECT_EQ(again.last, both.last);
  EXPECT_THAT(again.out, AllOf(HasSubstr("host was compared before"), Not(HasSubstr("cases of seed"))));
}

// Fails if a target that is not there hides the others, or is called clean.
TEST_F(CompareCli, ATargetThatIsNotAvailable) {
  const Outcome o = Run("compare plugin:./none.so host --cases 5 --problems 0 --out c");
  EXPECT_EQ(o.status, 4) << Err();
  EXPECT_THAT(o.out, AllOf(ContainsRegex("plugin:./none.so +unavailable"),
                           ContainsRegex("host +clean +5 of 5"), HasSubstr("unavailable ")));
}

// Fails if a target that is not there has anything removed, or if a comparison that was cut off cannot
// be gone on with.
TEST_F(CompareCli, NothingElseIsRemoved) {
  std::filesystem::create_directories(work_ / "inner/kept");
  EXPECT_EQ(Run("compare .. host --cases 2 --problems 0 --out inner/c").status, 4) << Err();
  EXPECT_EQ(Run("compare .. host --cases 2 --problems 0 --out inner/c").status, 4) << Err();
  EXPECT_TRUE(std::filesystem::exists(work_ / "inner/kept"));
  EXPECT_TRUE(std::filesystem::exists(work_ / "inner/c/comparison.json"));
}

// Fails if targets that are not asked for again are lost from the folder.
TEST_F(CompareCli, AFolderKeepsItsTargets) {
  const std::string rest = " --cases 2 --problems 0 --out c";
  EXPECT_EQ(Run("compare host host-hopper" + rest).status, 0) << Err();
  const Outcome o = Run("compare mutant:plain-logprob host-hopper" + rest);
  EXPECT_THAT(o.out, AllOf(ContainsRegex("\nhost +clean"), ContainsRegex("\nhost-hopper +clean"),
                           ContainsRegex("\nmutant:plain-logprob +"),
                           HasSubstr("host-hopper was compared before")));
}

// Fails if a finding is shrunk for as long as it takes where a limit was given.
TEST_F(CompareCli, ShrinkingEndsInItsTime) {
  const std::string two = "compare host mutant:plain-logprob --cases 60 --problems 0 --json --out ";
  const auto what = [](const Outcome& o) {
    std::string error;
    const std::optional<Json> said = Json::Parse(o.last, &error);
    return said ? said->Find("targets")->as_array()->back().Find("findings")->Dump() : error;
  };
  const std::string whole = what(Run(two + "a --shrink-time 1ms")), least = what(Run(two + "b"));
  EXPECT_THAT(whole, HasSubstr("bound:logprob"));
  EXPECT_THAT(least, HasSubstr("bound:logprob"));
  EXPECT_NE(whole, least);
}

// Fails if nonsense is run, or refused without its name.
TEST_F(CompareCli, WhatItRefuses) {
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    EXPECT_EQ(Run("compare " + arguments).status, 2) << arguments;
    EXPECT_THAT(Err(), HasSubstr(why)) << arguments;
  };
  refused("host", "one is given");
  refused("host host", "target host is given twice");
  refused("host host-hopper --shrink-time soon", "soon");
  refused("host host-hopper@fp32 --contract hopper", "target host-hopper@fp32 has one already");
  refused("host host-hopper --yardstick none-such", "'none-such' is unknown");
  refused("host host-hopper --yardstick own,logits=bf16", "is another contract for each target");
  std::filesystem::create_directories(work_ / "full");
  std::ofstream(work_ / "full/file") << "x";
  refused("host host-hopper --out full", "full holds no comparison, and is not empty");
  std::ofstream(work_ / "full/comparison.json") << R"({"plumb": 3})";
  refused("host host-hopper --out full", "comparison.plumb is 3");
}

// Fails if results of other cases are taken for those that are asked for.
TEST_F(CompareCli, AFolderOfOtherCases) {
  EXPECT_EQ(Run("compare host host-hopper --cases 3 --problems 0 --out c").status, 0) << Err();
  EXPECT_EQ(Run("compare host host-hopper --cases 3 --problems 0 --palette 2 --out c").status, 2);
  EXPECT_EQ(Run("compare host host-hopper --cases 4 --problems 0 --out c").status, 2);
  EXPECT_THAT(Err(), HasSubstr("holds a comparison by other cases"));
}

}  // namespace
}  // namespace plumbline::fuzz

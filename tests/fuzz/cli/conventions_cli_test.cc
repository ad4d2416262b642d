// SPDX-License-Identifier: Apache-2.0
//
// What a campaign of the built program says of a foreign target's conventions, and of a finding that
// the arbiter was not asked about.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "fuzz/base/json.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::Slurp;

using ForeignTarget = testing::Program;

// Fails if a convention is a finding on some case of some regime, if it is listed more than once a run,
// or if the summary's JSON does not have it.
TEST_F(ForeignTarget, ConventionsAreListedOnceARun) {
  const std::string target = work_.Plugin("conventional.c", "conventional", "-DSIDE=IGNORED_COMPUTED");
  const Outcome o = Run("fuzz --target " + target + " --blind --budget 300cases --seed 3 --out o");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  const std::string line = "convention: logprob, entropy and lse of an ignored row: other values";
  const size_t first = o.out.find(line);
  ASSERT_NE(first, std::string::npos) << o.out;
  EXPECT_EQ(o.out.find(line, first + 1), std::string::npos) << o.out;
  std::string error;
  const auto summary = Json::Parse(Slurp(work_ / "o" / "summary.json"), &error);
  ASSERT_TRUE(summary) << error;
  const Json& listed = *summary->Find("targets")->as_array()->at(0).Find("conventions");
  int seen = 0;
  for (const Json& each : *listed.as_array()) {
    seen += *each.Find("convention")->as_string() == "ignored-row" ? 1 : 0;
  }
  EXPECT_EQ(seen, 1);
}

// One row of 200 000 columns costs the arbiter more than a case may. Fails if the first sighting does
// not say that it was not asked, or if it is not asked about what is left of it in the end.
TEST_F(ForeignTarget, AFindingTooDearIsPutToTheArbiterOnceItIsSmall) {
  const std::string target = work_.Plugin("faulty.c", "faulty", "-DFAULT=NAN_ENTROPY");
  const Outcome o =
      Run("fuzz --target " + target +
          " --recipe 'v1 regime=free seed=1 dtype=fp32 n=1 v=200000 h=1' --shrink-tries 400 --out o");
  EXPECT_EQ(o.status, 1) << o.out << Err();
  const size_t unasked = o.out.find("the arbiter was not asked: it would take");
  ASSERT_NE(unasked, std::string::npos) << o.out;
  EXPECT_NE(o.out.find("arbiter  the value is ", unasked), std::string::npos) << o.out;
  EXPECT_THAT(Slurp(work_ / "o" / "journal.jsonl"), HasSubstr("\"arbiter_silent\":\"it would take"));
}

// Fails if --contract does not reach the workers, if the exit status of suspect findings is that of
// wrong ones, if a stored case loses the contract, or if an unknown contract is taken.
TEST_F(ForeignTarget, IsHeldToANamedContract) {
  const std::string hunt =
      "fuzz --target mutant:plain-logprob --budget 1000cases --seed 1 --stop-after 1 ";
  const Outcome own = Run(hunt + "--out own");
  EXPECT_EQ(own.status, 1) << own.out << Err();
  const Outcome held = Run(hunt + "--contract black-box --out held");
  EXPECT_EQ(held.status, 6) << held.out << Err();
  EXPECT_THAT(held.out, HasSubstr("no defect if logprob is formed as x_y - lse"));
  EXPECT_THAT(held.out, HasSubstr("cannot show: "));
  EXPECT_THAT(held.out, HasSubstr("verdict=suspect"));
  const Outcome again = Run("replay held/findings");
  EXPECT_EQ(again.status, 6) << again.out << Err();
  EXPECT_THAT(again.out, HasSubstr("on mutant:plain-logprob@black-box"));
  EXPECT_EQ(Run("fuzz --target host --contract hoper --budget 1cases").status, 2);
  EXPECT_THAT(Err(), HasSubstr("'hoper' is unknown; there are black-box, "));
  EXPECT_EQ(Run("fuzz --target host --contract a@b/c.json --budget 1cases").status, 2);
  std::ofstream(work_ / "k=1.json") << R"({"name": "m", "contract": {"accumulate": "fp32"}})";
  EXPECT_EQ(Run("fuzz --target host --contract k=1.json --budget 1cases --seed 1 --out signed").status,
            0)
      << Err();
  EXPECT_EQ(Run("fuzz --target host@fp32 --contract hopper --budget 1cases").status, 2);
  EXPECT_THAT(Err(), HasSubstr("target host@fp32 has one already"));
  const Outcome allowed =
      Run("selftest --mutant mean-of-nothing --contract black-box --budget 200cases");
  EXPECT_EQ(allowed.status, 0) << allowed.out;
  EXPECT_THAT(allowed.out, HasSubstr("allowed: the mean of nothing is 0 or NaN by convention"));
}

}  // namespace
}  // namespace plumbline::fuzz

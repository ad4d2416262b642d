// SPDX-License-Identifier: Apache-2.0
//
// The states of a case, by the program itself: replay changes the state and says so, and writes it only
// when asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::Slurp;

class Lifecycle : public testing::Program {
 protected:
  // Stores a case on plug-in k.so, found with the fault that the plug-in has now.
  void MakeCase(CaseState state) {
    Recipe recipe;
    std::string error;
    ASSERT_TRUE(Parse("v1 seed=5 dtype=fp32 n=3 v=5 h=4", &recipe, &error)) << error;
    Case c;
    c.problem = Expand(recipe);
    c.state = state;
    c.target = "plugin:" + (work_ / "k.so").string();
    c.finding.kind = FindingKind::kBound;
    c.finding.output = "lse";
    c.extra["seed"] = "5";
    ASSERT_TRUE(WriteCase(work_ / "c.safetensors", c, &error)) << error;
  }
  void Become(const std::string& fault) { work_.Plugin("faulty.c", "k", "-DFAULT=" + fault); }
  CaseState State() const {
    std::string error;
    const auto c = ReadCase(work_ / "c.safetensors", &error);
    EXPECT_TRUE(c) << error;
    return c ? c->state : CaseState::kNew;
  }
};

// Runs through all states. Fails if a change of state is not reported, not written, or written without
// --update, or if a defect comes back silently.
TEST_F(Lifecycle, FromNewToRegressionAndBack) {
  Become("LSE_OFF");
  MakeCase(CaseState::kNew);
  const std::string before = Slurp(work_ / "c.safetensors");
  Outcome o = Run("replay c.safetensors");
  EXPECT_EQ(o.status, 1) << Err();
  EXPECT_THAT(o.out, HasSubstr("state: new -> confirmed (written with --update)"));
  EXPECT_THAT(o.out, HasSubstr("1 case has another state now"));
  EXPECT_EQ(Slurp(work_ / "c.safetensors"), before);

  o = Run("replay c.safetensors --update");
  EXPECT_THAT(o.out, HasSubstr("state: new -> confirmed, written"));
  EXPECT_EQ(State(), CaseState::kConfirmed);
  o = Run("replay c.safetensors --update");
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.out, Not(HasSubstr("state:"))) << "it is where it should be";

  // The result of another target says nothing about this one.
  o = Run("replay c.safetensors --update --target host");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, Not(HasSubstr("state:")));
  EXPECT_EQ(State(), CaseState::kConfirmed);

  Become("POSITIVE_LOGPROB");
  o = Run("replay c.safetensors --update");
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("fails differently: "), HasSubstr("was bound:lse, is sign:logprob")));
  EXPECT_EQ(State(), CaseState::kConfirmed);
  Become("DECLINES");
  EXPECT_THAT(Run("replay c.safetensors --update").out, HasSubstr("skipped: "));
  EXPECT_EQ(State(), CaseState::kConfirmed);

  Become("NO_FAULT");
  EXPECT_THAT(Run("replay c.safetensors --update").out, HasSubstr("confirmed -> fixed"));
  EXPECT_THAT(Run("replay c.safetensors --update").out, HasSubstr("fixed -> regression"));
  EXPECT_EQ(State(), CaseState::kRegression);
  o = Run("replay c.safetensors --update");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, Not(HasSubstr("state:")));

  Become("LSE_OFF");
  o = Run("replay c.safetensors --update");
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.out, HasSubstr("it came back: a regression case"));
  EXPECT_EQ(State(), CaseState::kRegression);
  std::string error;
  const auto c = ReadCase(work_ / "c.safetensors", &error);
  EXPECT_EQ(c->extra.Find("history")->as_array()->size(), 3U);
}

// Fails if CI cannot see the results, if a character of a name ends the XML, if an error counts as
// passed, or if the run stops at the first file that it cannot read.
TEST_F(Lifecycle, JUnitHoldsEveryCase) {
  Become("LSE_OFF");
  MakeCase(CaseState::kConfirmed);
  std::filesystem::copy_file(work_ / "c.safetensors", work_ / "d<&\">.safetensors");
  std::ofstream(work_ / "torn.safetensors") << "torn";
  const Outcome o = Run("replay . --junit out.xml --json");
  EXPECT_EQ(o.status, 1);  // a file that cannot be read hides no finding
  EXPECT_THAT(Err(), HasSubstr("torn.safetensors: file has 4 bytes"));
  const std::string xml = Slurp(work_ / "out.xml");
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"2\" errors=\"1\" skipped=\"0\""));
  EXPECT_THAT(xml, HasSubstr("name=\"d&lt;&amp;&quot;&gt;.safetensors\""));
  EXPECT_THAT(xml, HasSubstr("still fails: "));
  std::string error;
  const auto json = Json::Parse(o.last, &error);
  ASSERT_TRUE(json) << error;
  EXPECT_EQ(json->Find("results")->as_array()->size(), 2U);

  Become("NO_FAULT");
  std::filesystem::remove(work_ / "torn.safetensors");
  EXPECT_EQ(Run("replay . --junit out.xml").status, 0);
  EXPECT_THAT(Slurp(work_ / "out.xml"), HasSubstr("tests=\"2\" failures=\"0\" errors=\"0\""));
  EXPECT_EQ(Run("replay . --junit none/out.xml").status, 3)
      << "results that were asked for and are lost";
  EXPECT_THAT(Err(), HasSubstr("none/out.xml"));

  std::filesystem::remove(work_ / "k.so");
  EXPECT_EQ(Run("replay . --junit out.xml").status, 4);
  EXPECT_THAT(Slurp(work_ / "out.xml"), HasSubstr("failures=\"0\" errors=\"2\""));
}

// Fails if merge loses or invents a case or depends on the order of its folders, or if a second merge
// writes anything.
TEST_F(Lifecycle, MergeIsIdempotentAndOrderIndependent) {
  for (const std::string seed : {"1", "2"}) {
    ASSERT_EQ(Run("fuzz --target mutant:tail-unmasked --target mutant:max-from-zero --budget 60cases "
                  "--jobs 1 --stop-after 4 --seed " +
                  seed + " --out hunt" + seed)
                  .status,
              1)
        << Err();
    // A slip is new, and its file then holds the second in which it was confirmed.
    std::filesystem::remove_all(work_ / ("hunt" + seed) / "slips");
  }
  const auto content = [&](const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(work_ / folder)) {
      files[entry.path().filename()] = Slurp(entry.path());
    }
    return files;
  };
  Outcome o = Run("merge hunt1 hunt2 --out ab");
  ASSERT_EQ(o.status, 0) << Err() << o.out;
  ASSERT_EQ(Run("merge hunt2 hunt1 --out ba").status, 0);
  const auto ab = content("ab");
  EXPECT_EQ(ab, content("ba"));
  EXPECT_GE(ab.size(), 2U);
  for (const auto& [name, bytes] : ab) {
    std::string error;
    const auto c = ReadCase(work_ / ("ab/" + name), &error);
    ASSERT_TRUE(c) << error;
    EXPECT_EQ(c->state, CaseState::kConfirmed) << name;
    EXPECT_EQ(CaseFileName(*c), name);
  }
  EXPECT_EQ(Run("merge hunt1 hunt2 --out ab").status, 0);
  EXPECT_EQ(content("ab"), ab);
  EXPECT_EQ(Run("merge ab --out ab").status, 0);
  EXPECT_EQ(content("ab"), ab);

  // On a target that is right no case is kept, and each is reported with the reason.
  o = Run("merge hunt1 --out none --target host");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, AllOf(HasSubstr("not kept: hunt1/findings/"), HasSubstr("0 kept")));
  EXPECT_FALSE(std::filesystem::exists(work_ / "none"));

  // An unreadable file does not stop the rest, and is reported.
  std::ofstream(work_ / "hunt1/findings/torn.safetensors") << "torn";
  o = Run("merge hunt1 nowhere --out c");
  EXPECT_EQ(o.status, 2);
  EXPECT_THAT(Err(), AllOf(HasSubstr("torn.safetensors: file has 4 bytes"), HasSubstr("nowhere: ")));
  EXPECT_GE(content("c").size(), 1U);
}

// Fails if git cannot show a diff, or if the diff hides the one value that changed. git itself is run.
TEST_F(Lifecycle, GitShowsWhatChanged) {
  if (RunCommand("git --version").status != 0) GTEST_SKIP() << "git is not installed";
  std::filesystem::copy_file(std::filesystem::path(PLUMBLINE_SOURCE_DIR) / ".gitattributes",
                             work_ / ".gitattributes");
  Become("LSE_OFF");
  MakeCase(CaseState::kConfirmed);
  const std::string git = "HOME=. GIT_CONFIG_NOSYSTEM=1 git -c user.name=t -c user.email=t@t ";
  ASSERT_EQ(RunCommand(git + "init -q . && " + git + "config diff.plumb.textconv '" + PLUMB_PROGRAM +
                       " show --textconv' && " + git + "add c.safetensors .gitattributes && " + git +
                       "commit -qm one")
                .status,
            0)
      << Err();
  std::string error;
  Case c = *ReadCase(work_ / "c.safetensors", &error);
  c.problem.weight.SetFloat(7, 42);
  c.state = CaseState::kFixed;
  ASSERT_TRUE(WriteCase(work_ / "c.safetensors", c, &error)) << error;
  const Outcome o = RunCommand(git + "diff");
  EXPECT_THAT(o.out, AllOf(HasSubstr("-state: confirmed"), HasSubstr("+state: fixed"),
                           HasSubstr("42 (0x1.5p+5)"), Not(HasSubstr("Binary files"))));
  // One row of weight and the state change: two lines out, two in.
  const std::regex changed("\n[+-][^+-]");
  EXPECT_EQ(
      std::distance(std::sregex_iterator(o.out.begin(), o.out.end(), changed), std::sregex_iterator()),
      4)
      << o.out;

  // A file that is no case, or is torn, must not make git stop showing the whole commit.
  std::ofstream(work_ / "c.safetensors") << "torn";
  const Outcome torn = RunCommand(git + "diff");
  EXPECT_EQ(torn.status, 0) << Err();
  EXPECT_THAT(torn.out, HasSubstr("+not a case: file has 4 bytes"));
}

}  // namespace
}  // namespace plumbline::fuzz

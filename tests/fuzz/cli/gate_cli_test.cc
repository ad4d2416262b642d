// SPDX-License-Identifier: Apache-2.0
//
// `plumb gate` and `--known` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::Slurp;

class GateCli : public testing::Program {
 protected:
  // As Program::Run; a folder that a gate keeps lies in the test's.
  Outcome Run(const std::string& arguments) const {
    return Program::Run(arguments, "TMPDIR=" + work_.path().string());
  }
  // The JUnit file without its times.
  std::string JUnit(const std::string& file) const {
    return std::regex_replace(Slurp(work_ / file), std::regex(" time=\"[0-9.]*\""), "");
  }
  void Accept(const std::string& file, const std::vector<std::string>& signatures) const {
    std::string entries;
    for (const std::string& signature : signatures) {
      entries +=
          std::string(entries.empty() ? "" : ", ") + "{\"signature\": \"" + signature +
          "\", \"reason\": \"why not\", \"link\": \"https://e.org/7\", \"date\": \"2025-01-31\"}";
    }
    std::ofstream(work_ / file) << "{\"known\": [" << entries << "]}";
  }
  // Accepts one bucket.
  void AcceptBucket(const std::string& file, const std::string& bucket) const {
    std::ofstream(work_ / file) << "{\"known\": [{\"bucket\": \"" << bucket
                                << "\", \"reason\": \"why not\", \"link\": \"https://e.org/7\", "
                                   "\"date\": \"2025-01-31\"}]}";
  }
  // Keeps one failing case of mutant:tail-unmasked in `folder`.
  void KeepCase(const std::string& folder) const {
    ASSERT_EQ(
        Run("fuzz --target mutant:tail-unmasked --budget 50cases --seed 1 --stop-after 1 --jobs 1 "
            "--out hunt")
            .status,
        1);
    std::filesystem::create_directories(work_ / folder);
    std::filesystem::copy(work_ / "hunt/findings", work_ / folder);
  }
};

// Fails if a gate takes an empty folder of a usual name for a corpus, or if merging nothing leaves one.
TEST_F(GateCli, ACorpusWithoutACaseIsNone) {
  std::filesystem::create_directories(work_ / "corpus");
  const Outcome gate = Run("gate host --cases 20 --jobs 1");
  EXPECT_EQ(gate.status, 0) << Err();
  EXPECT_THAT(gate.out, HasSubstr("no stored cases"));
  EXPECT_EQ(Run("gate host --cases 20 --jobs 1 --corpus corpus").status, 2);
  EXPECT_THAT(Err(), HasSubstr("no case (*.safetensors) in this folder"));
  ASSERT_EQ(Run("fuzz --target host --budget 20cases --seed 1 --jobs 1 --out hunt").status, 0);
  EXPECT_EQ(Run("merge hunt --out merged").status, 0);
  EXPECT_FALSE(std::filesystem::exists(work_ / "merged"));
  EXPECT_EQ(Run("merge hunt --out corpus").status, 0);
  EXPECT_TRUE(std::filesystem::exists(work_ / "corpus"));
}

// Fails if the number of jobs, or the folder that it works in, changes the verdict or the results.
TEST_F(GateCli, TwoRunsSayTheSame) {
  const Outcome one = Run("gate mutant:plain-logprob --cases 60 --jobs 1 --junit 1.xml --out o");
  const Outcome three = Run("gate mutant:plain-logprob --cases 60 --jobs 3 --junit 3.xml");
  EXPECT_EQ(one.status, 1) << Err();
  EXPECT_EQ(one.last, three.last);
  EXPECT_EQ(JUnit("1.xml"), JUnit("3.xml"));
  EXPECT_THAT(JUnit("1.xml"), AllOf(HasSubstr("<failure message=\"bound:logprob in"),
                                    HasSubstr("name=\"common-offset\"")));
  EXPECT_THAT(one.out, AllOf(HasSubstr("no stored cases"), HasSubstr("60 cases of seed 1")));
  EXPECT_EQ(Run("fuzz --resume o").status, 2);
  EXPECT_THAT(Err(), HasSubstr("holds a gate"));
}

// Fails if a clean gate leaves a folder behind, or one that found something removes it.
TEST_F(GateCli, AFolderIsKeptIfSomethingIsFound) {
  const auto folders = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(work_.path())) {
      count += entry.path().filename().string().starts_with("plumb-gate-") ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(Run("gate host --cases 5").status, 0) << Err();
  EXPECT_EQ(folders(), 0);
  const Outcome found = Run("gate mutant:plain-logprob --cases 60");
  EXPECT_EQ(found.status, 1) << Err();
  EXPECT_EQ(folders(), 1);
  EXPECT_THAT(found.out, HasSubstr("everything lies in " + (work_ / "plumb-gate-").string()));
}

// Fails if what a repository stores for its gate is not used, is not said, or goes before the command
// line.
TEST_F(GateCli, ARepositoryStoresItsGate) {
  KeepCase(".plumbline/corpus");
  std::ofstream(work_ / ".plumbline/gate.json") << R"({"seed": "77", "cases": 4})";
  Accept(".plumbline/known.json", {"crash"});
  Outcome o = Run("gate host --junit g.xml");
  EXPECT_THAT(o.out, AllOf(HasSubstr("the stored cases in .plumbline/corpus, then 4 cases of seed 77"),
                           HasSubstr("1 accepted findings in .plumbline/known.json")));
  EXPECT_EQ(o.last, "plumb: verdict=findings cases=5 judged=5 findings=1 status=1");
  EXPECT_THAT(o.out, HasSubstr("fixed: .plumbline/known.json: known[0], crash: no case shows it any "
                               "more: remove it"));
  EXPECT_THAT(JUnit("g.xml"), AllOf(HasSubstr("classname=\"host.corpus\" name=\"mutant-tail-unmasked"),
                                    HasSubstr("<failure message=\"fixed: remove it from .plumbline")));
  o = Run("gate host --cases 3 --seed 5");
  EXPECT_THAT(o.out, HasSubstr("then 3 cases of seed 5"));
  std::ofstream(work_ / ".plumbline/gate.json") << R"({"seed": "x"})";
  EXPECT_EQ(Run("gate host").status, 2);
  EXPECT_THAT(Err(), HasSubstr(".plumbline/gate.json: "));
}

// Fails if an accepted finding fails a build or is not reported with its reason, if it takes another
// one with it, or if an entry that no longer fails fails a hunt too.
TEST_F(GateCli, AcceptedFindingsAreReportedWithTheirReason) {
  Accept("known.json", {"bound:logprob", "bound:loss"});
  const std::string gate = "gate mutant:plain-logprob --cases 60 --junit g.xml --known known.json";
  Outcome o = Run(gate);
  EXPECT_EQ(o.status, 0) << o.out;
  EXPECT_THAT(o.out,
              HasSubstr("known: bound:logprob on mutant:plain-logprob, by bound:logprob: why not "
                        "(https://e.org/7, 2025-01-31)"));
  EXPECT_THAT(JUnit("g.xml"), AllOf(HasSubstr("failures=\"0\""), HasSubstr("<skipped message=\"known: "
                                                                           "why not")));
  o = Run("fuzz --target mutant:plain-logprob --budget 60cases --seed 1 --known known.json --out a");
  EXPECT_EQ(o.status, 0) << o.out;
  EXPECT_THAT(o.last, HasSubstr("findings=0"));
  Accept("known.json", {"bound:logprob"});
  EXPECT_EQ(Run(gate).status, 1);
  Accept("known.json", {"bound:logprob", "bound:loss", "hang"});
  EXPECT_EQ(Run(gate).status, 1);
  o = Run("fuzz --target mutant:plain-logprob --budget 60cases --seed 1 --known known.json --out b");
  EXPECT_EQ(o.status, 0) << o.out;
  EXPECT_THAT(o.out, HasSubstr("note: known, not seen in this hunt: hang"));
  std::ofstream(work_ / "known.json") << R"({"known": [{"signature": "hang"}]})";
  EXPECT_EQ(Run(gate).status, 2);
  EXPECT_THAT(Err(), HasSubstr("known.json: file.known[0].reason is missing"));
}

// The mutant shows bound:logprob in 6 of the first 60 cases, all of one bucket, and in 23 of 300, more
// than are shrunk. Fails if an entry accepts cases of another cause
// because they have the signature of one that it names, or if it does not accept its own.
TEST_F(GateCli, ABucketAcceptsOneCauseAndNotItsSignature) {
  const std::string gate = "gate mutant:plain-logprob --junit g.xml --known known.json --cases ";
  ASSERT_EQ(Run("gate mutant:plain-logprob --cases 60 --out o").status, 1);
  const std::string prefix = "mutant-plain-logprob-bound-logprob-";
  std::string bucket;
  for (const auto& file : std::filesystem::directory_iterator(work_ / "o/findings")) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(prefix)) bucket = name.substr(prefix.size(), 8);
  }
  AcceptBucket("known.json", bucket);
  Outcome o = Run(gate + "60");
  EXPECT_EQ(o.status, 0) << o.out;
  EXPECT_THAT(o.out, HasSubstr("by bucket " + bucket + ": why not"));
  o = Run(gate + "300");
  EXPECT_EQ(o.status, 1) << o.out;
  EXPECT_THAT(o.out, HasSubstr("its bucket is accepted, but "));
  EXPECT_THAT(JUnit("g.xml"), HasSubstr("its bucket is accepted, but "));
}

// Fails if a finding is hidden by a file beside it that cannot be read, if that file goes unsaid, or if
// a run is clean that has not looked at it.
TEST_F(GateCli, AFindingIsNotHiddenByAFileThatCannotBeRead) {
  KeepCase("c");
  std::ofstream(work_ / "c/torn.safetensors") << "torn";
  for (const std::string& command : std::vector<std::string>{
           "gate mutant:tail-unmasked --cases 0 --corpus c --junit g.xml", "replay c",
           "fuzz --target mutant:tail-unmasked --budget 1cases --seed 1 --corpus c --out o"}) {
    const Outcome o = Run(command);
    EXPECT_EQ(o.status, 1) << command << o.out;
    EXPECT_THAT(o.last, HasSubstr("verdict=findings")) << command;
    EXPECT_THAT(o.out + Err(), HasSubstr("c/torn.safetensors")) << command;
  }
  EXPECT_THAT(JUnit("g.xml"), HasSubstr("<error message=\"c/torn.safetensors: "));
  for (const std::string& command : std::vector<std::string>{
           "gate host --cases 2 --corpus c", "replay c --target host",
           "fuzz --target host --budget 3cases --seed 1 --corpus c --out p", "merge c --out m"}) {
    const Outcome o = Run(command);
    EXPECT_EQ(o.status, 2) << command << o.out;
  }
}

// The plug-in declines nearly everything. Fails if a campaign that judged little is clean, or does not
// say how little and why, or if one case that the user named is thin because it is skipped.
TEST_F(GateCli, WhereLittleIsJudgedTheVerdictIsThin) {
  const std::string declines = work_.Plugin("faulty.c", "declines", "-DFAULT=DECLINES");
  for (const std::string& command :
       std::vector<std::string>{"gate " + declines + " --cases 2 --junit g.xml",
                                "fuzz --budget 2cases --out o --target " + declines}) {
    const Outcome o = Run(command);
    EXPECT_EQ(o.status, 6) << command << o.out;
    EXPECT_THAT(o.last, AllOf(HasSubstr("verdict=thin cases=2 judged=0"), HasSubstr("status=6")));
    EXPECT_THAT(o.out,
                HasSubstr("0 of 2 drawn cases were judged (2 skipped, 0 vacuous); skipped most: "));
  }
  EXPECT_THAT(JUnit("g.xml"), HasSubstr("<failure message=\"thin: 0 of 2 drawn cases"));
  const Outcome one = Run("fuzz --recipe 'v1 v=4' --out p --target " + declines);
  EXPECT_EQ(one.status, 0) << one.out;
  EXPECT_THAT(one.last, HasSubstr("cases=1 judged=0"));
  std::string error;
  const auto json = Json::Parse(Run("gate host --cases 3 --json").last, &error);
  ASSERT_TRUE(json) << error;
  EXPECT_EQ(*json->Find("judged")->as_int(), 3);
}

using SlowGateCli = GateCli;

// Fails if any of 50 runs, with other jobs and on other numbers of cores, has another verdict, other
// numbers or another JUnit file than the first, its times apart. The targets are right, wrong, and
// dependent on how often their process was called.
TEST_F(SlowGateCli, FiftyRunsSayTheSame) {
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  std::vector<int> ours;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) ours.push_back(cpu);
  }
  const std::string one = "taskset -c " + std::to_string(ours.front());
  const std::string two = one + "," + std::to_string(ours.size() > 1 ? ours[1] : ours.front());
  const std::string faulty = work_.Plugin("fickle.c", "sometimes", "-DSOMETIMES");
  for (const std::string& target : {std::string("mutant:plain-logprob"), faulty, std::string("host")}) {
    std::string last, junit;
    for (int run = 0; run < 50; ++run) {
      const std::string cores = run % 3 == 0 ? one : run % 3 == 1 ? two : "";
      const Outcome o = Program::Run(
          "gate " + target + " --cases 100 --junit g.xml --jobs " + std::to_string(1 + run % 8),
          "TMPDIR=" + work_.path().string() + " " + cores);
      if (run == 0) {
        last = o.last;
        junit = JUnit("g.xml");
      }
      EXPECT_EQ(o.last, last) << run;
      EXPECT_EQ(JUnit("g.xml"), junit) << run;
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz

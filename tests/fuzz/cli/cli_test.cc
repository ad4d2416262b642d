// SPDX-License-Identifier: Apache-2.0
//
// The built program from outside: exit statuses, last lines, the effect of a signal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "fuzz/base/json.h"
#include "fuzz/base/version.h"
#include "fuzz/cli/report_text.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::Slurp;
using ::testing::StartsWith;

class Cli : public testing::Program {
 protected:
  // Waits until `seen`. Fails if the child `pid` ends before, or after ten minutes; then the child is
  // killed.
  ::testing::AssertionResult Await(pid_t pid, const std::function<bool()>& seen) const {
    const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    for (;;) {
      siginfo_t info{};
      // This is asked before `seen`, which may become true by the child's last action. The child is not
      // reaped.
      const bool ours = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
      const bool ended = ours && info.si_pid == pid;
      if (seen()) return ::testing::AssertionSuccess();
      if (ended || std::chrono::steady_clock::now() > last) {
        if (ours) {
          kill(pid, SIGKILL);
          waitpid(pid, nullptr, 0);
        }
        return ::testing::AssertionFailure()
               << (ended ? "the program has ended: " + std::to_string(info.si_status)
                         : "not seen within ten minutes")
               << "\n"
               << Slurp(work_ / "started");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  // Waits until the journal in `dir` holds `text` `count` times.
  ::testing::AssertionResult AwaitJournal(pid_t pid, const std::string& dir, const std::string& text,
                                          int count) const {
    return Await(pid, [&] {
      const std::string journal = Slurp(work_ / dir / "journal.jsonl");
      int seen = 0;
      for (size_t at = journal.find(text); at != std::string::npos; at = journal.find(text, at + 1))
        ++seen;
      return seen >= count;
    });
  }
};

// Fails if a status or a last line does not say what happened. The keys are an interface for scripts.
TEST_F(Cli, EveryEndHasItsStatusAndVerdict) {
  Outcome o = Run("fuzz --target host --blind --budget 5cases --seed 1 --out clean");
  EXPECT_EQ(o.status, 0) << Err();
  EXPECT_EQ(o.last, "plumb: verdict=clean cases=5 judged=5 findings=0 status=0");
  EXPECT_THAT(o.out, HasSubstr("with 95 % confidence under"));

  o =
      Run("fuzz --target mutant:tail-unmasked --budget 50cases --seed 1 --stop-after 1 --jobs 1 --out "
          "found");
  EXPECT_EQ(o.status, 1) << Err();
  EXPECT_TRUE(std::regex_match(
      o.last, std::regex("plumb: verdict=findings cases=[0-9]+ judged=[0-9]+ findings=1 status=1")))
      << o.last;

  for (const char* usage : {"",
                            "hunt",
                            "fuzz",
                            "fuzz --target host --budget 60",
                            "fuzz --target host --seed x",
                            "fuzz --target host --budgte 5cases",
                            "fuzz --target host --regime nope --out n",
                            "fuzz --target host --recipe 'v2' --out n",
                            "fuzz --target host --jobs 0",
                            "fuzz --target host --shard 2/2",
                            "fuzz --target host --corpus nowhere --out n",
                            "fuzz --target host --worker-memory 4",
                            "fuzz --target host --blind --corpus clean",
                            "fuzz --resume clean --seed 3",
                            "fuzz --resume nowhere",
                            "replay",
                            "replay nowhere",
                            "fuzz --target host --out clean",
                            "selftest --mutant nope"}) {
    o = Run(usage);
    EXPECT_EQ(o.status, 2) << usage;
    EXPECT_EQ(o.last, "plumb: verdict=usage cases=0 judged=0 findings=0 status=2") << usage;
    EXPECT_THAT(Err(), StartsWith("plumb: ")) << usage;
  }
  EXPECT_FALSE(std::filesystem::exists(work_ / "n"));

  for (const char* absent : {"fuzz --target mutant:nope --out n", "targets plugin:/nowhere.so"}) {
    o = Run(absent);
    EXPECT_EQ(o.status, 4) << absent;
    EXPECT_EQ(o.last, "plumb: verdict=unavailable cases=0 judged=0 findings=0 status=4");
  }
}

// Fails if an option has no description, or if the help is not that of the command that was meant.
TEST_F(Cli, HelpNamesTheOptionsAndAnExample) {
  for (const char* command : {"fuzz", "replay", "show", "shrink", "targets", "selftest", "doctor"}) {
    const Outcome o = Run(std::string(command) + " --help");
    EXPECT_EQ(o.status, 0) << command;
    EXPECT_THAT(o.out, HasSubstr(std::string("plumb ") + command)) << command;
    EXPECT_THAT(o.out, HasSubstr("Example")) << command;
  }
  Run("replay --taget host x");
  EXPECT_THAT(Err(), HasSubstr("`plumb replay --help` lists its options"));
  EXPECT_THAT(Run("--help").out, ::testing::Not(HasSubstr("worker")));
}

// Fails if the build and the program name different versions.
TEST_F(Cli, TheVersionIsTheProjects) {
  const std::string cmake = Slurp(std::filesystem::path(PLUMBLINE_SOURCE_DIR) / "CMakeLists.txt");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(cmake, match, std::regex("project\\(plumbline VERSION ([0-9.]+)")));
  EXPECT_EQ(match[1].str(), kVersion);
  EXPECT_EQ(Run("--version").out, "plumb " + std::string(kVersion) + "\n");
}

// Fails if the printed lines do not reproduce their finding. They are run exactly as printed.
TEST_F(Cli, AFindingsTwoLinesReproduceIt) {
  const Outcome found =
      Run("fuzz --target mutant:plain-logprob --budget 200cases --seed 1 --stop-after 1 --jobs 1 --out "
          "'a dir'");
  ASSERT_EQ(found.status, 1) << Err();
  int lines = 0;
  std::istringstream text(found.out);
  for (std::string line; std::getline(text, line);) {
    const size_t begin = line.find(PLUMB_PROGRAM);
    if (begin == std::string::npos) continue;
    ++lines;
    const std::string arguments = line.substr(begin + std::string(PLUMB_PROGRAM).size() + 1);
    EXPECT_EQ(Run(arguments).status, 1) << line << Err();
  }
  EXPECT_EQ(lines, 2) << found.out;
}

// Fails if replay calls any failure "still fails", or calls a passing case clean without running it.
TEST_F(Cli, ReplayTellsStillFromDifferentlyFromPasses) {
  ASSERT_EQ(
      Run("fuzz --target mutant:ignored-row-leaks --budget 300cases --seed 1 --stop-after 1 --out o")
          .status,
      1);
  Outcome o = Run("replay o/findings");
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.out, StartsWith("still fails: o/findings/"));
  EXPECT_EQ(o.last, "plumb: verdict=findings cases=1 judged=1 findings=1 status=1");
  o = Run("replay o --target host");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, StartsWith("passes: "));
  const std::string rounds = work_.Misbehaving("ROUND_UP", "-DALWAYS=1");
  o = Run("replay o --target " + rounds);
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.out, StartsWith("fails differently: "));

  o = Run("show o");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, HasSubstr("mutant:ignored-row-leaks"));
  o = Run("shrink o/findings/*.safetensors --out smaller.safetensors");
  EXPECT_EQ(o.status, 1) << Err();
  EXPECT_EQ(Run("replay smaller.safetensors").status, 1);
  EXPECT_THAT(o.out, HasSubstr("what may vary:\n"));
  o = Run("shrink o/findings/*.safetensors --target host");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.out, HasSubstr("nothing to shrink"));

  // A folder holds one file that is no case: the others are shrunk nevertheless.
  std::filesystem::create_directory(work_ / "mixed");
  std::filesystem::copy(work_ / "smaller.safetensors", work_ / "mixed" / "a.safetensors");
  std::filesystem::copy(work_ / "smaller.safetensors", work_ / "mixed" / "b.safetensors");
  o = Run("shrink mixed --out small --json");
  EXPECT_EQ(o.status, 1) << Err();
  EXPECT_THAT(o.last, HasSubstr("\"cases\":2"));
  EXPECT_THAT(o.last, HasSubstr("\"explain\":["));
  EXPECT_EQ(Run("replay small").status, 1);
  std::ofstream(work_ / "mixed" / "c.safetensors") << "no case";
  o = Run("shrink mixed --out small");
  EXPECT_EQ(o.status, 1);  // a file that cannot be read hides no finding
  EXPECT_THAT(Err(), HasSubstr("c.safetensors"));
  EXPECT_THAT(o.out, HasSubstr("shrunk "));
  EXPECT_EQ(Run("shrink mixed --out smaller.safetensors").status, 2);

  std::ofstream(work_ / "bad.safetensors") << "no case";
  EXPECT_EQ(Run("replay bad.safetensors").status, 2);
  EXPECT_THAT(Err(), HasSubstr("bad.safetensors"));
}

// Fails if text stands between the braces, or if the summary lacks something that the text says.
TEST_F(Cli, JsonIsOneObjectOnTheLastLine) {
  for (const char* command :
       {"doctor", "targets", "targets host", "fuzz --target host --budget 3cases --seed 1 --out j",
        "selftest --mutant tail-unmasked", "fuzz --target nope --out k"}) {
    const Outcome o = Run(std::string(command) + " --json");
    std::string error;
    const auto json = Json::Parse(o.out.substr(0, o.out.size() - 1), &error);
    ASSERT_TRUE(json) << command << error << o.out;
    ASSERT_TRUE(json->Find("status") && json->Find("verdict") && json->Find("cases")) << command;
    ASSERT_TRUE(json->Find("findings") && json->Find("findings")->as_int()) << command;
    EXPECT_EQ(*json->Find("status")->as_int(), o.status) << command;
  }
  std::string error;
  const auto json =
      Json::Parse(Run("fuzz --target host --budget 7cases --seed 1 --out l --json").last, &error);
  ASSERT_TRUE(json) << error;
  const Json& tally = json->Find("targets")->as_array()->at(0);
  EXPECT_EQ(*tally.Find("cases")->as_int(), 7);
  EXPECT_EQ(*tally.Find("pass")->as_int() + *tally.Find("vacuous")->as_int(), 7);
  EXPECT_GT(tally.Find("tightness")->as_object()->size(), 3U);
}

// Fails if selftest says "killed" of a campaign that found nothing.
TEST_F(Cli, SelftestFailsWhereTheMutantLives) {
  Outcome o = Run("selftest --mutant rows-beyond-grid --budget 1cases --seed 1 --out s");
  EXPECT_EQ(o.status, 1) << o.out;
  EXPECT_THAT(o.out, HasSubstr("ALIVE"));
  // A defect without effect must survive, and that is a failure.
  o = Run("selftest --mutant host --budget 2cases --seeds 2 --matrix 1 --out u");
  EXPECT_EQ(o.status, 1) << o.out;
  EXPECT_THAT(o.out, HasSubstr("ALIVE: not found"));
  EXPECT_THAT(o.out, HasSubstr("0 of 2 hunts for 1 mutants ended with a kill"));
  EXPECT_THAT(o.out, HasSubstr("host: no regime kills it"));
  o = Run("selftest --mutant tail-unmasked --out t");
  EXPECT_EQ(o.status, 0) << o.out;
  EXPECT_THAT(o.out, HasSubstr("killed"));
}

// Fails if Ctrl-C loses finished work or is taken for a crash of the target, or if the printed line
// does not resume the campaign.
TEST_F(Cli, ASignalSavesAndSaysHowToGoOn) {
  const pid_t pid = Start(
      {"fuzz", "--target", "host", "--budget", "1000000cases", "--seed", "1", "--out", work_ / "i"});
  ASSERT_TRUE(AwaitJournal(pid, "i", "\"done\"", 5));
  kill(pid, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  const std::string out = Slurp(work_ / "started");
  EXPECT_THAT(out, HasSubstr("fuzz --resume"));
  EXPECT_THAT(out, HasSubstr("verdict=interrupted"));
  EXPECT_THAT(out, HasSubstr("findings=0"));
  const Outcome o = Run("fuzz --resume i --budget 3cases");
  EXPECT_EQ(o.status, 0) << Err();
}

// Fails if a killed supervisor leaves an unusable journal, or if the resume forgets cases or counts
// them twice. The reference is the same campaign without a kill.
TEST_F(Cli, AKilledSupervisorLosesNothing) {
  const std::string what = "--target mutant:max-from-zero --seed 5";
  ASSERT_EQ(Run("fuzz " + what + " --budget 80cases --out whole").status, 1) << Err();
  const pid_t pid = Start({"fuzz", "--target", "mutant:max-from-zero", "--seed", "5", "--budget",
                           "80cases", "--out", work_ / "parts"});
  ASSERT_TRUE(AwaitJournal(pid, "parts", "\"done\"", 20));
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  const Outcome o = Run("fuzz --resume parts");
  EXPECT_EQ(o.status, 1) << Err();
  std::string error;
  const auto summary = [&](const char* folder) {
    // This is the one number that depends on time: fuzz/campaign/arbiter_schedule.h.
    const std::regex arbitrated(R"("arbitrated": \d+)");
    const std::string text = Slurp(work_ / folder / "summary.json");
    return Json::Parse(std::regex_replace(text, arbitrated, R"("arbitrated": 0)"), &error);
  };
  const auto whole = summary("whole"), parts = summary("parts");
  ASSERT_TRUE(whole && parts) << error;
  EXPECT_EQ(*whole->Find("targets"), *parts->Find("targets"));
  EXPECT_EQ(whole->Find("sightings")->as_array()->size(), parts->Find("sightings")->as_array()->size());
}

// Fails if a worker in an endless loop outlives its supervisor.
TEST_F(Cli, WorkersDieWithTheSupervisor) {
  const std::string target = work_.Misbehaving("HANG");
  const pid_t pid = Start({"fuzz", "--target", target, "--recipe", "v1 v=5", "--case-timeout", "1h",
                           "--jobs", "1", "--out", work_ / "h"});
  ASSERT_TRUE(AwaitJournal(pid, "h", "\"start\"", 1));
  const auto find_worker = [&]() -> std::string {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string stat = Slurp(entry.path() / "stat");
      const size_t end = stat.rfind(") ");  // the end of the name; then state and parent
      if (end == std::string::npos) continue;
      std::istringstream rest(stat.substr(end + 2));
      char state = 0;
      pid_t parent = 0;
      rest >> state >> parent;
      if (parent == pid && state != 'Z') return entry.path();
    }
    return {};
  };
  std::string worker;
  ASSERT_TRUE(Await(pid, [&] { return !(worker = find_worker()).empty(); }));
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  // The worker is gone, or a zombie that has not been reaped yet. It is no child of this process.
  const pid_t worker_pid = std::stoi(std::filesystem::path(worker).filename());
  const auto gone = Await(worker_pid, [&] {
    const std::string stat = Slurp(std::filesystem::path(worker) / "stat");
    return stat.find(") ") == std::string::npos || stat.substr(stat.rfind(") ") + 2, 1) == "Z";
  });
  EXPECT_TRUE(gone);
  if (!gone) kill(worker_pid, SIGKILL);
}

// Fails if a test waits forever for a dead program, or if it gives up on a program that did what was
// awaited and ended.
TEST_F(Cli, AwaitingADeadProgramFails) {
  const auto result = AwaitJournal(Start({"targets", "nil"}), "nowhere", "done", 1);
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("the program has ended: 4"));
  const pid_t pid = Start({"fuzz", "--target", "host", "--budget", "3cases", "--out", work_ / "o"});
  EXPECT_TRUE(AwaitJournal(pid, "o", "\"done\"", 3));
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

// Fails if a slow machine can make a hang of a sound case, in the tests of anything but hangs.
TEST_F(Cli, TestsGiveACaseAmpleTime) {
  Run("fuzz --target host --budget 1cases --out ample");
  EXPECT_THAT(Slurp(work_ / "ample" / "journal.jsonl"), HasSubstr("\"case_timeout_ms\":600000"));
  const pid_t pid = Start({"fuzz", "--target", "host", "--budget", "1cases", "--case-timeout", "7s",
                           "--out", work_ / "own"});
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_THAT(Slurp(work_ / "own" / "journal.jsonl"), HasSubstr("\"case_timeout_ms\":7000"));
}

// Fails if a quote ends early; a real shell decides.
TEST_F(Cli, QuotedWordsReachTheProgramWhole) {
  for (const std::string word :
       {"plain-1.2:x=y", "two words", "it's", "$HOME `id` \\ \"q\"", "", "*"}) {
    std::FILE* pipe = popen(("printf %s " + ShellQuote(word)).c_str(), "r");
    std::array<char, 256> buffer{};
    const size_t got = fread(buffer.data(), 1, buffer.size(), pipe);
    pclose(pipe);
    EXPECT_EQ(std::string(buffer.data(), got), word);
  }
}

}  // namespace
}  // namespace plumbline::fuzz

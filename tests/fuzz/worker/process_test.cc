// SPDX-License-Identifier: Apache-2.0
//
// Tests of workers and of the outcomes of targets that harm them. The built program is the child.
#include "fuzz/worker/process.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cfenv>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fuzz/base/fp_environment.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/worker/case_runner.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Far above the time of any of these cases, so that only a target that hangs reaches it.
constexpr std::chrono::milliseconds kLong{120'000};
// A short deadline for targets that do hang. Nothing else is run under it.
constexpr std::chrono::milliseconds kShort{300};

constexpr const char* kBad = "v1 seed=1 n=2 v=5 h=3";   // V % 4 == 1: misbehaves
constexpr const char* kGood = "v1 seed=1 n=2 v=8 h=3";  // V % 4 == 0: is declined

class Workers : public ::testing::Test {
 protected:
  WorkerSpec Spec(const std::string& target) const {
    WorkerSpec spec;
    spec.target = target;
    spec.program = PLUMB_PROGRAM;
    return spec;
  }
  CaseRunner Runner(const std::string& target, std::chrono::milliseconds deadline = kLong) const {
    return {Spec(target), deadline, &interrupt_};
  }
  static Request Line(const char* recipe) { return RequestFor(recipe, 1); }

  testing::Workplace work_;
  std::atomic<bool> interrupt_{false};
  std::string error_;
};

// Fails if the request holds another case than the one that was sent. Both forms must give the same
// answer, here of a defect that only some of these problems show.
TEST_F(Workers, ARecipeAndItsStoredProblemAreJudgedAlike) {
  CaseRunner runner = Runner("mutant:tail-unmasked");
  int failing = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    const std::string line =
        "v1 regime=all-negative values=all-negative exp=4 n=2 h=3 seed=" + std::to_string(seed) +
        " v=" + std::to_string(60 + seed);
    Recipe recipe;
    ASSERT_TRUE(Parse(line, &recipe, &error_)) << error_;
    const Judged a = runner.Run(RequestFor(line, 1));
    const Judged b = runner.Run(RequestFor(Expand(recipe), 1));
    ASSERT_EQ(a.kind, Judged::Kind::kJudged) << a.error;
    EXPECT_EQ(a.result.harness_fault, "");
    ASSERT_EQ(a.result.findings.size(), b.result.findings.size());
    for (size_t i = 0; i < a.result.findings.size(); ++i) {
      EXPECT_EQ(a.result.findings[i].what, b.result.findings[i].what);
    }
    // 60 + seed == 64 is a whole tile: no column is past the vocabulary, so the defect cannot show.
    EXPECT_EQ(a.result.findings.empty(), 60 + seed == 64) << line;
    failing += a.result.findings.empty() ? 0 : 1;
  }
  EXPECT_EQ(failing, 19);
}

// Fails if a reason is lost on its way from the child, or if a start waits forever.
TEST_F(Workers, ATargetThatDoesNotLoadSaysWhy) {
  EXPECT_FALSE(WorkerProcess::Start(Spec("mutant:no-such"), &interrupt_, &error_));
  EXPECT_THAT(error_, HasSubstr("there is no target 'mutant:no-such'"));
  EXPECT_FALSE(WorkerProcess::Start(Spec("plugin:/nowhere/x.so"), &interrupt_, &error_));
  EXPECT_THAT(error_, HasSubstr("/nowhere/x.so"));
  WorkerSpec absent = Spec("host");
  absent.program = "/nowhere/plumb";
  EXPECT_FALSE(WorkerProcess::Start(absent, &interrupt_, &error_));
  EXPECT_THAT(error_, HasSubstr("/nowhere/plumb"));
  WorkerSpec other = Spec("host");
  other.program = "/bin/false";  // a program that ends silently
  EXPECT_FALSE(WorkerProcess::Start(other, &interrupt_, &error_));
  EXPECT_THAT(error_, HasSubstr("exited with status 1"));
}

// Fails if a crash ends the supervisor, is lost, or is reported without its signal and the target's
// last words; or if control characters are passed on to a terminal.
TEST_F(Workers, ACrashIsAFinding) {
  CaseRunner runner = Runner(work_.Misbehaving("CRASH"));
  const Judged judged = runner.Run(Line(kBad));
  ASSERT_EQ(judged.kind, Judged::Kind::kJudged);
  EXPECT_TRUE(judged.retried);
  EXPECT_TRUE(judged.once.empty());
  ASSERT_EQ(judged.result.findings.size(), 1U);
  EXPECT_EQ(judged.result.findings[0].kind, FindingKind::kCrash);
  EXPECT_THAT(judged.result.findings[0].what, HasSubstr("signal 6"));
  EXPECT_THAT(judged.result.findings[0].what, HasSubstr("about to?abort"));
  // The next case is judged as if nothing had happened.
  const Judged next = runner.Run(Line(kGood));
  EXPECT_EQ(next.result.verdict, oracle::Verdict::kSkipped);
  EXPECT_FALSE(next.retried);
}

// Fails if an orderly exit inside a target is taken for an answer, if a socket that the target closed
// is waited on forever, or if a child of the worker that holds the socket hides the worker's death.
TEST_F(Workers, EveryOtherWayToDieIsACrashToo) {
  for (const char* behaviour : {"EXIT", "CLOSE", "GRANDCHILD"}) {
    CaseRunner runner = Runner(work_.Misbehaving(behaviour));
    const Judged judged = runner.Run(Line(kBad));
    ASSERT_EQ(judged.result.findings.size(), 1U) << behaviour;
    EXPECT_EQ(judged.result.findings[0].kind, FindingKind::kCrash) << behaviour;
  }
}

// Fails if a hang is waited for, is called a crash, or leaves its process behind.
TEST_F(Workers, AHangIsAFinding) {
  CaseRunner runner = Runner(work_.Misbehaving("HANG"), kShort);
  const Judged judged = runner.Run(Line(kBad));
  ASSERT_EQ(judged.result.findings.size(), 1U);
  EXPECT_EQ(judged.result.findings[0].kind, FindingKind::kHang);

  const auto worker = WorkerProcess::Start(Spec(work_.Misbehaving("HANG")), &interrupt_, &error_);
  ASSERT_TRUE(worker) << error_;
  const pid_t pid = worker->pid();
  EXPECT_EQ(worker->Ask(Line(kBad), kShort).kind, Answer::Kind::kTimedOut);
  EXPECT_EQ(kill(pid, 0), -1);
}

// Fails if what a campaign does beside a case waits for the worker's answer, is done again with the second
// attempt, or is done where no worker began.
TEST_F(Workers, TheCallerWorksWhileTheWorkerDoes) {
  CaseRunner runner = Runner(work_.Misbehaving("HANG"), kShort);
  std::vector<std::chrono::steady_clock::time_point> calls;
  const Judged judged = runner.Run(Line(kBad), [&] { calls.push_back(std::chrono::steady_clock::now()); });
  const auto answered = std::chrono::steady_clock::now();
  EXPECT_TRUE(judged.retried);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_GE(answered - calls[0], kShort);  // of the second attempt at least
  interrupt_.store(true);
  runner.Run(Line(kBad), [&] { calls.emplace_back(); });
  EXPECT_EQ(calls.size(), 1U);
}

// Fails if a crash from memory that an earlier case damaged is dropped because it does not happen
// again, or if the kernel's out-of-memory killer is blamed on the target.
TEST_F(Workers, ADeathThatDoesNotHappenAgainIsMarked) {
  CaseRunner runner = Runner(work_.Misbehaving("CRASH_ONCE"));
  EXPECT_TRUE(runner.Run(Line(kBad)).result.findings.empty());
  const Judged second = runner.Run(Line(kBad));
  ASSERT_FALSE(second.result.findings.empty());
  EXPECT_EQ(second.result.findings[0].kind, FindingKind::kCrash);
  EXPECT_EQ(second.once, std::set<std::string>{"crash"});
  EXPECT_THAT(second.result.findings[0].what, HasSubstr("did not die again"));

  CaseRunner killed = Runner(work_.Misbehaving("KILLED_ONCE"));
  EXPECT_TRUE(killed.Run(Line(kBad)).result.findings.empty());
  const Judged again = killed.Run(Line(kBad));
  EXPECT_TRUE(again.result.findings.empty());
  EXPECT_TRUE(again.retried);
}

// Fails if a finding is dropped because the second run, for the arbiter, did not show it.
TEST_F(Workers, AFindingThatIsNotSeenAgainIsMarked) {
  CaseRunner runner = Runner(work_.Misbehaving("FAIL_ONCE"));
  const Judged judged = runner.RunAndConfirm(Line(kBad));
  ASSERT_EQ(judged.result.findings.size(), 1U);
  EXPECT_EQ(judged.result.verdict, oracle::Verdict::kFail);
  EXPECT_EQ(judged.result.findings[0].kind, FindingKind::kStatus);
  EXPECT_EQ(judged.once, std::set<std::string>{"status:failed"});
}

// Fails if output of a target reaches the protocol, or if the log grows without limit. The target
// prints 4 MB and reads its standard input to the end.
TEST_F(Workers, WhatATargetPrintsHarmsNothing) {
  WorkerSpec spec = Spec(work_.Misbehaving("CHATTY"));
  spec.log = work_ / "log";
  spec.log_limit = 100'000;
  CaseRunner runner(spec, kLong, &interrupt_);
  for (int i = 0; i < 3; ++i) {
    const Judged judged = runner.Run(Line(kBad));
    EXPECT_EQ(judged.result.verdict, oracle::Verdict::kSkipped);
    EXPECT_FALSE(judged.retried);
  }
  runner.Run(Line(kGood));  // a request begins with a check of the log
  EXPECT_LT(std::filesystem::file_size(spec.log), 200'000U);
  std::string first;
  std::getline(std::ifstream(spec.log), first);
  EXPECT_THAT(first, HasSubstr("cut here"));
}

// Fails if the oracle computes in the rounding mode that the target left behind, and contradicts
// itself.
TEST_F(Workers, ATargetThatChangesTheRoundingIsAFindingAndNoFault) {
  CaseRunner runner = Runner(work_.Misbehaving("ROUND_UP"));
  const Judged judged = runner.Run(Line(kBad));
  EXPECT_EQ(judged.result.harness_fault, "");
  ASSERT_EQ(judged.result.findings.size(), 1U);
  EXPECT_THAT(judged.result.findings[0].what, HasSubstr("floating-point environment"));
  EXPECT_EQ(runner.Run(Line(kGood)).result.verdict, oracle::Verdict::kSkipped);

  // A target that changes the rounding while it is loaded (as -ffast-math start-up code does) is
  // corrected silently.
  CaseRunner loaded(Spec(work_.Misbehaving("CHATTY", "-DROUND_UP_WHEN_LOADED")), kLong, &interrupt_);
  EXPECT_EQ(loaded.Run(Line(kGood)).result.verdict, oracle::Verdict::kSkipped);
}

// Fails if Ctrl-C waits for the deadline of the case in flight.
TEST_F(Workers, AnInterruptEndsTheWait) {
  CaseRunner runner = Runner(work_.Misbehaving("HANG"));
  ASSERT_TRUE(runner.Ready(&error_)) << error_;
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    interrupt_ = true;
  });
  EXPECT_EQ(runner.Run(Line(kBad)).kind, Judged::Kind::kInterrupted);
  later.join();
}

// Fails if the check tests the wrong direction, or only the rounding of one of the two formats.
TEST(FpEnvironment, EveryOtherRoundingIsSeenAndRestored) {
  EXPECT_THAT(FpEnvironmentFault(), IsEmpty());
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::string fault = FpEnvironmentFault();
    RestoreFpEnvironment();
    EXPECT_THAT(fault, HasSubstr("round")) << mode;
    EXPECT_THAT(FpEnvironmentFault(), IsEmpty());
  }
#if defined(__x86_64__)
  for (const auto& [bit, word] : {std::pair(0x8000U, "results"), {0x0040U, "operands"}}) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | bit);  // FTZ, DAZ
    const std::string fault = FpEnvironmentFault();
    RestoreFpEnvironment();
    EXPECT_THAT(fault, HasSubstr("subnormal")) << word;
    EXPECT_THAT(FpEnvironmentFault(), IsEmpty());
  }
#endif
}

}  // namespace
}  // namespace plumbline::fuzz

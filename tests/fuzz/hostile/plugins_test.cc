// SPDX-License-Identifier: Apache-2.0
//
// Plug-ins do everything that code in its own process can do to harm the program, one action at a time,
// while they are loaded, describe themselves and run (tests/fuzz/plugins/hostile.c). Each must end in
// the right status and in words that say what was done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "fuzz/cases/file.h"
#include "fuzz/worker/process.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using ::testing::StartsWith;

class HostilePlugin : public testing::Program {
 protected:
  void SetUp() override {
    // A sanitizer reports the signal and exits in its own way; these tests need the plug-in's own
    // death.
    setenv("ASAN_OPTIONS", "handle_segv=0", 0);
    setenv("TSAN_OPTIONS", "handle_segv=0", 0);
    plugin_ = work_.Plugin("hostile.c", "hostile", "-pthread");
    Case c;
    OwnedProblem& p = c.problem;
    p.hidden = HostTensor::Zeros(kernel::DType::kF32, {2, 2});
    p.weight = HostTensor::Zeros(kernel::DType::kF32, {3, 2});
    p.labels = HostTensor::Zeros(kernel::DType::kI64, {2});
    p.hidden.SetFloat(0, 1);
    p.weight.SetFloat(2, 2);
    c.target = "host";
    c.extra = Json(Json::Object{});
    std::string error;
    ASSERT_TRUE(WriteCase(work_ / "case.safetensors", c, &error)) << error;
  }

  // Replays the case on the plug-in that does `deed`.
  Outcome Replay(const std::string& deed, const std::string& before = "",
                 const std::string& timeout = "60s") const {
    return Run("replay case.safetensors --target " + plugin_ + " --case-timeout " + timeout,
               before + " PLUMB_HOSTILE=" + deed);
  }
  Outcome Describe(const std::string& text) const {
    std::ofstream(work_ / "description") << text;
    return Run("targets " + plugin_, "PLUMB_DESCRIPTION=description");
  }

  std::string plugin_;
};

constexpr const char* kFound = "plumb: verdict=findings cases=1 judged=1 findings=1 status=1";
constexpr const char* kClean = "plumb: verdict=clean cases=1 judged=1 findings=0 status=0";
constexpr const char* kUnavailable = "plumb: verdict=unavailable cases=0 judged=0 findings=0 status=4";

// The control: without an action the plug-in is right, and is judged so. Fails if it has a finding: the
// other tests would then show nothing.
TEST_F(HostilePlugin, ThatDoesNothingPasses) {
  const Outcome o = Replay("nowhere:nothing");
  EXPECT_EQ(o.last, kClean) << Err();
  EXPECT_THAT(o.out, StartsWith("passes: "));
}

// Fails if a death while loading is waited on, is reported without its cause, or ends in another
// status. The message must name the library.
TEST_F(HostilePlugin, ThatDiesBeforeItIsReadyIsUnavailable) {
  const std::pair<const char*, const char*> deaths[] = {{"segfault", "signal 11"},
                                                        {"abort", "signal 6"},
                                                        {"exit", "exited with status 0"},
                                                        {"_exit", "exited with status 0"},
                                                        {"kill", "signal 9"},
                                                        {"close", "exited with status"},
                                                        {"garbage", "sent bytes that are no answer"}};
  int turn = 0;
  for (const auto& [deed, words] : deaths) {
    // Half of the actions run in each place: both are behind one call.
    const std::string where = turn++ % 2 == 0 ? "load:" : "describe:";
    const Outcome o = Replay(where + deed);
    EXPECT_EQ(o.status, 4) << deed;
    EXPECT_EQ(o.last, kUnavailable) << deed;
    EXPECT_THAT(Err(), HasSubstr(plugin_)) << deed;
    EXPECT_THAT(Err(), HasSubstr(words)) << deed;
  }
}

// Fails if a start waits forever, or leaves its process behind. The test starts the worker in this
// process, since the program waits two minutes.
TEST_F(HostilePlugin, ThatHangsBeforeItIsReadyIsGivenUp) {
  for (const char* deed : {"load:hang", "describe:stop"}) {
    setenv("PLUMB_HOSTILE", deed, 1);
    WorkerSpec spec;
    spec.target = plugin_;
    spec.program = PLUMB_PROGRAM;
    spec.start_timeout = std::chrono::milliseconds(300);
    std::string error;
    EXPECT_FALSE(WorkerProcess::Start(spec, nullptr, &error)) << deed;
    unsetenv("PLUMB_HOSTILE");
    EXPECT_THAT(error, HasSubstr(plugin_)) << deed;
    EXPECT_THAT(error, HasSubstr("did not answer before its deadline")) << deed;
  }
}

// Fails if a death in the middle of a case is taken for an answer or for a fault of the harness, or is
// reported without its cause.
TEST_F(HostilePlugin, ThatDiesInACaseHasCrashed) {
  const std::pair<const char*, const char*> deaths[] = {
      {"segfault", "signal 11"}, {"far-write", "signal 11"},
      {"abort", "signal 6"},     {"exit", "status 0"},
      {"_exit", "status 0"},     {"kill", "signal 9"},
      {"close", "status"},       {"garbage", "sent bytes that are no answer"}};
  for (const auto& [deed, words] : deaths) {
    const Outcome o = Replay(std::string("run:") + deed);
    EXPECT_EQ(o.status, 1) << deed;
    EXPECT_EQ(o.last, kFound) << deed;
    EXPECT_THAT(o.out, HasSubstr("is crash: the worker process died")) << deed;
    EXPECT_THAT(o.out, HasSubstr(words)) << deed;
  }
}

// Fails if a stopped process, neither dead nor answering, is waited for without a deadline.
TEST_F(HostilePlugin, ThatStopsInACaseHangs) {
  for (const char* deed : {"stop", "hang"}) {
    const Outcome o = Replay(std::string("run:") + deed, "", "400ms");
    EXPECT_EQ(o.last, kFound) << deed;
    EXPECT_THAT(o.out, HasSubstr("is hang: no answer within 400 ms")) << deed;
  }
}

// Fails if the judge computes in the mode that the target left behind.
TEST_F(HostilePlugin, ThatChangesTheArithmeticIsFound) {
  for (const char* deed : {"round", "flush"}) {
    const Outcome o = Replay(std::string("run:") + deed);
    EXPECT_EQ(o.last, kFound) << deed;
    EXPECT_THAT(o.out, HasSubstr("floating-point environment")) << deed;
  }
}

// Fails if the supervisor's files depend on a worker's folder or mask, if it waits for a thread or a
// child of the target, or if it keeps everything that a target prints (256 MiB).
TEST_F(HostilePlugin, ThatChangesItsOwnProcessHarmsNothing) {
  for (const char* deed : {"chdir", "umask", "thread", "fork", "print"}) {
    const Outcome o = Replay(std::string("run:") + deed);
    EXPECT_EQ(o.last, kClean) << deed << Err();
    EXPECT_THAT(o.out, StartsWith("passes: ")) << deed;
  }
}

// Fails if memory that a target used up is called a fault of the harness, or if the case ends silently.
// The limit is the process's own, so that the machine is not affected.
TEST_F(HostilePlugin, ThatTakesAllMemoryIsFound) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more address space than any limit leaves";
#endif
  const std::string limit = "ulimit -v 2000000 &&";
  Outcome o = Replay("run:memory", limit);
  EXPECT_EQ(o.last, kFound) << o.out << Err();
  EXPECT_THAT(o.out, HasSubstr("is status:memory: the target kept "));
  o = Replay("describe:memory", limit);
  EXPECT_EQ(o.last, kUnavailable);
  EXPECT_THAT(Err(), HasSubstr("bad_alloc"));
}

// Fails if a false description is believed or cut, or if its control characters reach a terminal.
TEST_F(HostilePlugin, ThatLiesInItsDescriptionIsRefused) {
  const std::pair<std::string, const char*> lies[] = {
      {"", "description is not JSON"},
      {"not json", "description is not JSON"},
      {"[]", "not an object"},
      {R"({"name":3})", "description.name is 3"},
      {R"({"name":"x","nmae":1})", "description.nmae"},
      {R"({"name":"x","contract":{"exp_error":NaN}})", "description is not JSON"},
      {R"({"name":"x","contract":{"exp_error":"nan"}})", "contract.exp_error is \"nan\""},
      {R"({"name":"x","contract":{"exp_error":-1}})", "contract.exp_error is -1"},
      {R"({"name":"x","capabilities":{"dtypes":["fp64"]}})", "capabilities.dtypes is [\"fp64\"]"},
      {R"({"name":"\u001b[2J"})", "description.name"},
      {"{\"name\":\"" + std::string(300, 'x') + "\"}", "description.name"},
      {"{\"name\":\"x\",\"version\":\"" + std::string(2'000'000, 'x') + "\"}", "2000025 bytes"},
      {std::string(1'000'000, '['), "nested deeper than 64"}};
  for (const auto& [text, words] : lies) {
    const std::string shown = text.substr(0, 50);
    const Outcome o = Describe(text);
    EXPECT_EQ(o.status, 4) << shown;
    EXPECT_EQ(o.last, kUnavailable) << shown;
    EXPECT_THAT(Err(), HasSubstr(plugin_)) << shown;
    EXPECT_THAT(Err(), HasSubstr(words)) << shown;
    EXPECT_LT(Err().size(), 2000u) << shown;
    EXPECT_EQ(Err().find('\x1b'), std::string::npos) << shown;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

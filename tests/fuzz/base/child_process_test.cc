// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>

#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Far above the time of any of these children.
constexpr std::chrono::milliseconds kLong = 60s;

ChildSpec Shell(const std::string& script) {
  return {.program = "/bin/sh", .words = {"sh", "-c", script}};
}

// Fails if a status, a signal, or the last words of a child are lost, or if words from before the mark
// are taken for its last.
TEST(ChildProcess, SaysHowItEndedAndWhatItPrintedLast) {
  std::string error;
  ChildProcess exits;
  ASSERT_TRUE(exits.Start(Shell("echo first; printf 'the \\033 last  \\n\\n' >&2; exit 7"), &error));
  ASSERT_TRUE(exits.Await(kLong));
  EXPECT_EQ(exits.end()->status, 7);
  EXPECT_EQ(exits.end()->signal, 0);
  EXPECT_EQ(exits.end()->how, "exited with status 7");
  EXPECT_GT(exits.end()->most_resident, 0);
  EXPECT_EQ(exits.Printed(100), "first\nthe \033 last");
  EXPECT_EQ(exits.LastLine(), "; its last line: the ? last");
  exits.MarkLog();
  EXPECT_EQ(exits.LastLine(), "");

  ChildProcess aborts;
  ASSERT_TRUE(aborts.Start(Shell("kill -6 $$"), &error));
  ASSERT_TRUE(aborts.Await(kLong));
  EXPECT_EQ(aborts.end()->status, -1);
  EXPECT_EQ(aborts.end()->signal, 6);
  EXPECT_EQ(aborts.end()->how, "killed by signal 6 (Aborted)");
}

// Fails if a program that does not exist is taken for a child, or if a log that cannot be opened is
// passed over.
TEST(ChildProcess, SaysWhyItDidNotStart) {
  std::string error;
  ChildProcess absent;
  EXPECT_FALSE(absent.Start({.program = "/nowhere/program", .words = {"program"}}, &error));
  EXPECT_THAT(error, HasSubstr("/nowhere/program"));
  ChildSpec spec = Shell("exit 0");
  spec.log = "/nowhere/log";
  ChildProcess mute;
  EXPECT_FALSE(mute.Start(spec, &error));
  EXPECT_THAT(error, HasSubstr("/nowhere/log"));
}

// Here a grandchild holds the write end of a pipe. Fails if the end of the child is waited for beyond
// the time given, if Kill leaves the grandchild alive, or if the shared descriptor does not reach it.
TEST(ChildProcess, KillReachesTheChildrenOfTheChild) {
  std::array<int, 2> pair;
  ASSERT_EQ(pipe2(pair.data(), O_CLOEXEC), 0);
  ChildSpec spec = Shell("sleep 1000 & echo begun >&3; wait");
  spec.shared = pair[1];
  std::string error;
  ChildProcess child;
  ASSERT_TRUE(child.Start(spec, &error)) << error;
  close(pair[1]);
  char words[6];
  ASSERT_EQ(read(pair[0], words, sizeof words), 6);
  EXPECT_FALSE(child.Await(20ms));
  EXPECT_FALSE(child.end());
  child.Kill();
  EXPECT_EQ(child.end()->signal, 9);
  pollfd closed{pair[0], POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, static_cast<int>(kLong.count())), 1);
  EXPECT_EQ(read(pair[0], words, sizeof words), 0);
  close(pair[0]);
}

// Fails if a child can fill the disk, or if the cut is not noted in the log.
TEST(ChildProcess, ALogAboveItsLimitIsCut) {
  const testing::Workplace work;
  ChildSpec spec = Shell("head -c 300000 /dev/zero");
  spec.log = work / "log";
  spec.log_limit = 1'000;
  std::string error;
  ChildProcess child;
  ASSERT_TRUE(child.Start(spec, &error)) << error;
  ASSERT_TRUE(child.Await(kLong));
  child.MarkLog();
  EXPECT_LT(std::filesystem::file_size(spec.log), 1'000u);
  std::string first;
  std::getline(std::ifstream(spec.log), first);
  EXPECT_THAT(first, HasSubstr("bytes of output cut here"));
}

}  // namespace
}  // namespace plumbline::fuzz

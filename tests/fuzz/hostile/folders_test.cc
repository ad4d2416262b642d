// SPDX-License-Identifier: Apache-2.0
//
// Tests of folders and files that cannot be created, of disks that fill up and of names that do not
// exist. Each must end in the right status, in words that hold the argument and its value, and in a
// verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::Slurp;
using ::testing::StartsWith;

class HostileFolder : public testing::Program {
 protected:
  void Ends(const Outcome& o, int status, const std::string& word, const std::string& words) const {
    EXPECT_EQ(o.status, status) << o.out << Err();
    EXPECT_THAT(o.last, StartsWith("plumb: verdict=" + word + " "));
    EXPECT_THAT(Err(), HasSubstr("plumb: "));
    EXPECT_THAT(Err(), HasSubstr(words));
  }
};

// Fails if a name that does not exist is taken for another, skipped, or refused without being named.
TEST_F(HostileFolder, UnknownNamesAreNamed) {
  struct Row {
    const char* arguments;
    int status;
    const char* word;
    const char* words;
  };
  const Row rows[] = {
      {"fuzz --target hots --budget 1cases --out o", 4, "unavailable", "'hots'"},
      {"fuzz --target mutant:nil --budget 1cases --out o", 4, "unavailable", "'mutant:nil'"},
      {"fuzz --target plugin:no.so --budget 1cases --out o", 4, "unavailable", "no.so"},
      {"fuzz --target host --regime nil --budget 1cases --out o", 2, "usage", "nil"},
      {"fuzz --target host --recipe 'v1 nil=3' --out o", 2, "usage", "nil"},
      {"fuzz --target host --recipe 'v1 n=-3' --out o", 2, "usage", "n=-3"},
      {"fuzz --target host --recipe 'v1 values=nil' --out o", 2, "usage", "nil"},
      {"fuzz --target host --recipe 'v9' --out o", 2, "usage", "v9"},
      {"fuzz --target host --budget 7parsecs --out o", 2, "usage", "7parsecs"},
      {"fuzz --target host --seed 0xyz --out o", 2, "usage", "0xyz"},
      {"fuzz --target host --nil 3 --out o", 2, "usage", "--nil"},
      {"selftest --mutant nil", 2, "usage", "nil"},
      {"targets nil", 4, "unavailable", "nil"},
      {"replay nil.safetensors", 2, "usage", "nil.safetensors"},
      {"show nil.safetensors", 2, "usage", "nil.safetensors"},
      {"shrink nil.safetensors", 2, "usage", "nil.safetensors"},
      {"check nil.safetensors", 2, "usage", "nil.safetensors"},
      {"fuzz --resume nil", 2, "usage", "nil"},
      {"nil", 2, "usage", "nil"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.arguments);
    Ends(Run(row.arguments), row.status, row.word, row.words);
  }
  EXPECT_FALSE(std::filesystem::exists(work_ / "o"));
}

// Fails if a campaign goes on without a folder to write into, or ends without naming it. Permissions do
// not stop root, so the folders are ones that nobody can make.
TEST_F(HostileFolder, ThatCannotBeMadeIsNamed) {
  std::ofstream(work_ / "file") << "no folder";
  for (const char* out : {"file", "file/inside", "/proc/nowhere/inside", "/dev/null/inside"}) {
    SCOPED_TRACE(out);
    const Outcome o = Run("fuzz --target host --budget 1cases --seed 1 --out " + std::string(out));
    EXPECT_TRUE(o.status == 2 || o.status == 3) << o.status;
    EXPECT_THAT(o.last, StartsWith(o.status == 2 ? "plumb: verdict=usage" : "plumb: verdict=fault"));
    EXPECT_THAT(Err(), HasSubstr(out));
  }
  EXPECT_EQ(Slurp(work_ / "file"), "no folder");
}

// Fails if an obstacle to what a campaign stores is ignored: a finding would be lost.
TEST_F(HostileFolder, WithSomethingInTheWayIsNamed) {
  std::filesystem::create_directory(work_ / "o");
  std::ofstream(work_ / "o" / "findings") << "in the way";
  const Outcome o = Run("fuzz --target mutant:plain-logprob --budget 40cases --seed 1 --out o");
  Ends(o, o.status, o.status == 2 ? "usage" : "fault", "o/findings");
  EXPECT_TRUE(o.status == 2 || o.status == 3) << o.status;
  EXPECT_EQ(Slurp(work_ / "o" / "findings"), "in the way");
}

// Fails if a folder that may not be read is taken for an empty one, or if an output folder that may not
// be created ends the program by an exception. Root may read and write everything, so the program is
// then started without the capabilities that allow it.
TEST_F(HostileFolder, ThatMayNotBeReadIsNamed) {
  const std::string plain =
      geteuid() != 0 ? "" : "setpriv --bounding-set=-dac_override,-dac_read_search";
  if (RunCommand(plain + " true").status != 0) GTEST_SKIP() << "root that may not give up capabilities";
  std::filesystem::create_directory(work_ / "closed");
  chmod((work_ / "closed").c_str(), 0);
  Ends(Run("replay closed", plain), 2, "usage", "closed");
  Ends(Run("fuzz --target host --budget 1cases --out closed/o", plain), 2, "usage", "closed/o");
  chmod((work_ / "closed").c_str(), 0700);
}

// Fails if anything that is neither a file nor a folder is read as one.
TEST_F(HostileFolder, ThatIsNeitherFileNorFolderIsNamed) {
  std::filesystem::create_directory(work_ / "empty");
  std::filesystem::create_directory(work_ / "folder.safetensors");
  for (const char* path : {"empty", "folder.safetensors", "/dev/null"}) {
    SCOPED_TRACE(path);
    Ends(Run("replay " + std::string(path)), 2, "usage", path);
  }
}

// The journal is the first file to reach the limit, in the middle of a line. Fails if a campaign calls
// itself clean, or ends silently, when its journal cannot be written, or if the journal is lost with
// it.
TEST_F(HostileFolder, ThatFillsUpIsAFaultAndIsGoneOnWith) {
  // 512 bytes hold some thirty cases.
  const Outcome o =
      Run("fuzz --target host --budget 400cases --seed 1 --jobs 1 --out o", "ulimit -f 40 &&");
  Ends(o, 3, "fault", "cannot write the journal");
  EXPECT_LE(std::filesystem::file_size(work_ / "o" / "journal.jsonl"), 40u * 512);
  // With room again it resumes where it stopped, and cuts a torn line off.
  const Outcome resumed = Run("fuzz --resume o");
  EXPECT_EQ(resumed.status, 0) << Err();
  EXPECT_EQ(resumed.last, "plumb: verdict=clean cases=400 judged=398 findings=0 status=0");
}

// Fails if a finding whose case could not be stored is called stored.
TEST_F(HostileFolder, WithoutRoomForAFindingSaysSo) {
  const std::filesystem::path small = work_ / "small";
  std::filesystem::create_directory(small);
  if (mount("none", small.c_str(), "tmpfs", 0, "size=64k,mode=0777") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs: " << std::strerror(errno);
  }
  const Outcome o = Run("fuzz --target mutant:plain-logprob --budget 4000cases --seed 1 --out small/o");
  EXPECT_EQ(umount(small.c_str()), 0);
  Ends(o, 3, "fault", "disk");
}

// Fails if a verdict that cannot be written ends with a status of success.
TEST_F(HostileFolder, OutputThatCannotBeWrittenIsAFault) {
  for (const char* command :
       {"targets", "doctor --json", "fuzz --target host --budget 1cases --out o"}) {
    const Outcome o = Run(std::string(command) + " > /dev/full");
    EXPECT_EQ(o.status, 3) << command;
    EXPECT_THAT(Err(), HasSubstr("cannot write to standard output: No space left on device"));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

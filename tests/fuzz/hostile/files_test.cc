// SPDX-License-Identifier: Apache-2.0
//
// The program is given malformed files and folders. Each must be refused by name, with the reason and
// the status of a wrong use, and none waited for. The bytes inside a single file are tested in
// safetensors_test, json_test, and cases/file_test and cases/expansion_test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/regular_file.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/options.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;
using testing::Slurp;
using ::testing::StartsWith;

// Makes everything that a name may stand for except a regular file with bytes in it.
class Hostile : public testing::Program {
 protected:
  void MakeSocket(const fs::path& path) {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(descriptor);
  }
  // Makes one of each kind under `folder`. Returns them with the reason that each refusal must give.
  std::vector<std::pair<std::string, std::string>> MakeSpecials(const fs::path& folder) {
    EXPECT_EQ(mkfifo((folder / "fifo.safetensors").c_str(), 0644), 0);
    MakeSocket(folder / "socket.safetensors");
    fs::create_symlink("loop.safetensors", folder / "loop.safetensors");
    fs::create_symlink("/dev/zero", folder / "device.safetensors");
    fs::create_symlink("nowhere", folder / "dangling.safetensors");
    return {{"dangling", "No such file"},
            {"device", "not a regular file"},
            {"fifo", "not a regular file"},
            {"loop", "Too many levels of symbolic links"},
            {"socket", "not a regular file"}};
  }
};

// Fails if a command waits on a pipe, reads a device forever, or skips such a name silently.
TEST_F(Hostile, SpecialFilesAreRefusedByName) {
  fs::create_directory(work_ / "d");
  const auto specials = MakeSpecials(work_ / "d");
  const CaseListing listing = ListCases(work_ / "d");
  EXPECT_THAT(listing.files, IsEmpty());
  ASSERT_EQ(listing.unreadable.size(), specials.size());
  for (size_t i = 0; i < specials.size(); ++i) {
    const auto& [name, why] = specials[i];
    const fs::path path = work_ / "d" / (name + ".safetensors");
    EXPECT_THAT(listing.unreadable[i], AllOf(StartsWith(path.string() + ": "), HasSubstr(why)));
    std::string error;
    EXPECT_FALSE(ReadCase(path, &error).has_value());
    EXPECT_THAT(error, AllOf(StartsWith(path.string() + ": "), HasSubstr(why)));
    for (const char* command : {"replay ", "show ", "merge --out out ", "check "}) {
      EXPECT_EQ(Run(command + path.string()).status, 2) << command << name;
      EXPECT_THAT(Err(), AllOf(HasSubstr(path.string()), HasSubstr(why))) << command;
    }
  }
  EXPECT_EQ(Run("replay d").status, 2);
}

// Fails if a folder named like a file or an unreadable neighbour hides readable cases, or if a dump
// among cases or a link to a folder of them is taken for a case.
TEST_F(Hostile, AListingGoesOnAndSaysWhatItCouldNotRead) {
  const fs::path corpus = fs::path(PLUMBLINE_SOURCE_DIR) / "corpus";
  const CaseListing ours = ListCases(corpus);
  EXPECT_THAT(ours.unreadable, IsEmpty());
  fs::create_directories(work_ / "d/folder.safetensors");
  fs::create_directories(work_ / "d/locked");
  fs::copy_file(ours.files[0], work_ / "d/folder.safetensors/a.safetensors");
  fs::copy_file(ours.files[0], work_ / "d/b.safetensors");
  fs::copy_file(corpus / "real/minilm-64.safetensors", work_ / "d/dump.safetensors");
  std::ofstream(work_ / "d/torn.safetensors") << "torn";
  fs::create_directory_symlink("..", work_ / "d/up");
  CaseListing listing = ListCases(work_ / "d");
  EXPECT_THAT(listing.files,
              ElementsAre(work_ / "d/b.safetensors", work_ / "d/folder.safetensors/a.safetensors",
                          work_ / "d/torn.safetensors"));
  EXPECT_THAT(listing.unreadable, IsEmpty());

  if (geteuid() != 0) GTEST_SKIP() << "to be another user needs root";
  fs::permissions(work_ / "d/locked", fs::perms::none);
  ASSERT_EQ(chmod(work_.path().c_str(), 0755), 0);
  ASSERT_EQ(seteuid(65534), 0);
  listing = ListCases(work_ / "d");
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(listing.files.size(), 3U);
  EXPECT_THAT(listing.unreadable, ElementsAre((work_ / "d/locked").string() + ": Permission denied"));
}

// Fails if a problem that is being shrunk, or a witness of a fault, is replayed as a finding.
TEST_F(Hostile, OfACampaignOnlyItsFindingsAreListed) {
  const fs::path one = ListCases(fs::path(PLUMBLINE_SOURCE_DIR) / "corpus").files[0];
  for (const char* folder : {"findings", "slips", "shrinking", "faults"}) {
    fs::create_directories(work_ / "c" / folder);
    fs::copy_file(one, work_ / "c" / folder / "x.safetensors");
  }
  std::ofstream(work_ / "c" / kJournalName) << "";
  for (const char* folder : {"c", "."}) {
    EXPECT_THAT(
        ListCases(work_ / folder).files,
        ElementsAre(work_ / folder / (*folder == 'c' ? "findings" : "c/findings") / "x.safetensors",
                    work_ / folder / (*folder == 'c' ? "slips" : "c/slips") / "x.safetensors"));
  }
  EXPECT_THAT(ListCases(work_ / "c/shrinking").files, ElementsAre(work_ / "c/shrinking/x.safetensors"));
}

// Fails if a reader allocates gigabytes for a file before it has read any of it.
TEST_F(Hostile, AnOversizedFileIsNotRead) {
  const int descriptor = open((work_ / "big.safetensors").c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(ftruncate(descriptor, off_t{1} << 40), 0);
  close(descriptor);
  std::string error;
  EXPECT_FALSE(ReadCase(work_ / "big.safetensors", &error).has_value());
  EXPECT_THAT(error, HasSubstr("more than 268435456 bytes"));
}

// Fails if a message is as long as the file, or holds bytes that control a terminal.
TEST_F(Hostile, MessagesAreShortAndHarmless) {
  const std::string name = "\\u001b[2Jevil\\n" + std::string(100'000, 'x');
  for (const std::string& header : std::vector<std::string>{
           "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
           "{\"t\":{\"dtype\":\"" + name + "\",\"shape\":[],\"data_offsets\":[0,4]}}",
           "{\"t\":{\"" + name + "\":1}}", "{\"t\":\"" + name + "\"}", "{\"" + name + "\":1}",
           "{\"__metadata__\":{\"" + name + "\":1}}",
           "{\"__metadata__\":{\"case\":\"{\\\"" + std::string(100'000, 'y') + "\\\":1}\"}}"}) {
    std::ofstream file(work_ / "e.safetensors", std::ios::binary);
    const uint64_t size = header.size();
    file.write(reinterpret_cast<const char*>(&size), 8);
    file << header << "0123";
    file.close();
    std::string error;
    EXPECT_FALSE(ReadCase(work_ / "e.safetensors", &error).has_value());
    EXPECT_LT(error.size(), 700U) << header.substr(0, 60);
    for (const char c : error) EXPECT_GE(static_cast<unsigned char>(c), 0x20U) << error;
  }
}

// Fails if a campaign is resumed from a pipe, a folder or another program's file.
TEST_F(Hostile, JournalsAreFilesOfJournals) {
  for (const char* kind : {"fifo", "folder", "empty", "garbage", "ahead", "kind"}) {
    const fs::path dir = work_ / kind;
    fs::create_directory(dir);
    const fs::path journal = dir / kJournalName;
    const std::string text = kind;
    // This is the valid beginning of a journal.
    std::string header, error;
    if (text == "ahead" || text == "kind") {
      CampaignOptions options;
      options.targets = {"host"};
      ASSERT_TRUE(Journal::Create(dir, options, &error)) << error;
      header = Slurp(journal) + "{\"kind\":0,\"regime\":\"r\",\"class\":[\"\",\"\",\"\",\"\"]}\n";
    }
    std::string names;
    if (text == "fifo") {
      ASSERT_EQ(mkfifo(journal.c_str(), 0644), 0);
      names = "not a regular file";
    } else if (text == "folder") {
      fs::create_directory(journal);
      names = "not a regular file";
    } else if (text == "empty") {
      std::ofstream(journal) << "";
      names = "is empty";
    } else if (text == "garbage") {
      std::ofstream(journal) << "{\"a\":1}\n{}\n";
      names = "line 1";
    } else if (text == "ahead") {
      std::ofstream(journal) << header << "{\"done\":[68719476735,1,1,0]}\n{}\n";
      names = "line 3: item 68719476735";
    } else {
      std::ofstream(journal) << header << "{\"done\":[0,1,1,1]}\n{}\n";
      names = "line 3: ";
    }
    EXPECT_EQ(Run("fuzz --resume " + text).status, 2) << text;
    EXPECT_THAT(Err(), AllOf(HasSubstr(journal.filename().string()), HasSubstr(names))) << text;
  }
}

// Fails if a half-written file is left behind, or if one of another program is removed.
TEST_F(Hostile, WritingIsWholeOrNotAtAll) {
  const std::string text = "whole";
  const auto bytes = std::as_bytes(std::span(text));
  std::string error;
  EXPECT_TRUE(WriteWhole(work_ / "a", bytes, &error)) << error;
  EXPECT_EQ(Slurp(work_ / "a"), "whole");
  EXPECT_FALSE(WriteWhole("/dev/full/a", bytes, &error));
  EXPECT_THAT(error, HasSubstr("/dev/full/a"));
  std::ofstream(work_ / "b.safetensors.123-4.tmp") << "x";
  std::ofstream(work_ / "b.tmp") << "x";
  std::ofstream(work_ / "b-1.tmp") << "x";
  RemoveTemporaries(work_.path());
  EXPECT_FALSE(fs::exists(work_ / "b.safetensors.123-4.tmp"));
  EXPECT_TRUE(fs::exists(work_ / "b.tmp") && fs::exists(work_ / "b-1.tmp") && fs::exists(work_ / "a"));
}

}  // namespace
}  // namespace plumbline::fuzz

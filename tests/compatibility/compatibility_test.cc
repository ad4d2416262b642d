// SPDX-License-Identifier: Apache-2.0
//
// The current program reads files of earlier versions: plug-ins, cases, dumps and folders of campaigns,
// as README.md of this folder lists them. The earlier program's results lie in expected/. The part that
// keep.py leaves is compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "fuzz/base/json.h"
#include "tests/fuzz/support/located.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::Slurp;

// Fractions that the oracle computes depend on the C library's last bit; a kernel's do not.
constexpr double kNear = 1e-3;

void ExpectHolds(const Json& stored, const Json& now, const std::string& where);

void ExpectHoldsMembers(const Json::Object& stored, const Json& now, const std::string& where) {
  for (const auto& [key, value] : stored) {
    const Json* const member = now.Find(key);
    if (member == nullptr) {
      ADD_FAILURE() << where << "." << key << " is no longer there";
      continue;
    }
    if (key == "got") {
      EXPECT_EQ(member->Dump(), value.Dump()) << where << ".got: other bits";
    } else {
      ExpectHolds(value, *member, where + "." + key);
    }
  }
}

void ExpectHoldsItems(const Json::Array& stored, const Json& now, const std::string& where) {
  const Json::Array* const items = now.as_array();
  ASSERT_TRUE(items != nullptr && items->size() == stored.size()) << where << ": " << now.Dump();
  for (size_t i = 0; i < stored.size(); ++i) {
    ExpectHolds(stored[i], (*items)[i], where + "[" + std::to_string(i) + "]");
  }
}

// Checks that `now` holds every member of `stored`, equal, fractions to within kNear. It may hold more
// members.
void ExpectHolds(const Json& stored, const Json& now, const std::string& where) {
  const bool whole = stored.as_int() != nullptr || stored.as_string() != nullptr;
  if (const Json::Object* object = stored.as_object()) {
    ExpectHoldsMembers(*object, now, where);
  } else if (const Json::Array* array = stored.as_array()) {
    ExpectHoldsItems(*array, now, where);
  } else if (const std::optional<double> number = stored.as_number(); number && !whole) {
    EXPECT_NEAR(*number, now.as_number().value_or(std::nan("")), kNear * std::fabs(*number)) << where;
  } else {
    EXPECT_EQ(stored.Dump(), now.Dump()) << where;
  }
}

class Compatibility : public testing::Program {
 protected:
  void SetUp() override {
    for (const char* folder : {"plugins", "corpus", "dumps", "campaigns"}) {
      fs::copy(Stored(folder), work_ / folder, fs::copy_options::recursive);
    }
  }

  static fs::path Stored(const std::string& name) {
    return testing::LocatedSource("tests/compatibility/" + name);
  }

  // Checks that the program's --json and its status are those of expected/NAME.json.
  void ExpectAsThen(const std::string& name, const std::string& arguments) const {
    SCOPED_TRACE(name);
    const Outcome o = Run(arguments + " --json");
    std::string error;
    const std::optional<Json> stored = Json::Parse(Slurp(Stored("expected/" + name + ".json")), &error);
    ASSERT_TRUE(stored) << error;
    const std::optional<Json> now = Json::Parse(o.last, &error);
    ASSERT_TRUE(now) << error << "\n" << o.out << Err();
    ExpectHolds(*stored, *now, name);
    EXPECT_EQ(o.status, *stored->Find("status")->as_int()) << Err();
  }

  // Returns name and content of each file below a folder.
  static std::map<std::string, std::string> Content(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files[entry.path().lexically_relative(folder)] = Slurp(entry.path());
    }
    return files;
  }
};

// The stored plug-ins are machine code of x86-64 for glibc.
class CompatibilityPlugIn : public Compatibility {
 protected:
  void SetUp() override {
#if !defined(__x86_64__) || !defined(__GLIBC__)
    GTEST_SKIP() << "the stored plug-ins are for x86-64 and glibc";
#endif
    Compatibility::SetUp();
  }
};

using SlowCompatibilityPlugIn = CompatibilityPlugIn;

// Fails if a plug-in of ABI 1 no longer loads, is called with another problem or result struct, or is
// judged otherwise: with run alone, and with the split form, whose lse is wrong on purpose.
TEST_F(SlowCompatibilityPlugIn, IsLoadedAndJudgedAsThen) {
  ExpectAsThen("plugin-1",
               "fuzz --target plugin:plugins/plugin-1.so --budget 2500cases --seed 3 --out a");
  // How far shrinking gets in its time decides what is found to be one cause.
  ExpectAsThen("split-1",
               "fuzz --target plugin:plugins/split-1.so --budget 300cases --seed 3 --shrink-tries 2000 --out b");
}

// Fails if a table of another version or a shorter one is called, or is refused without its number.
TEST_F(CompatibilityPlugIn, OfAnotherTableIsRefusedInWords) {
  const std::pair<const char*, const char*> tables[] = {
      {"abi-0.so", "abi_version is 0, this build speaks "},
      {"short-table.so", "struct_size is 16, below version 1's 48"}};
  for (const auto& [name, words] : tables) {
    const std::string target = std::string("plugin:plugins/") + name;
    const Outcome o = Run("fuzz --target " + target + " --budget 1cases --out c");
    EXPECT_EQ(o.status, 4) << name;
    EXPECT_EQ(o.last, "plumb: verdict=unavailable cases=0 judged=0 findings=0 status=4");
    EXPECT_THAT(Err(), HasSubstr(target + ": " + words));
  }
}

// Fails if a case of a mutant no longer parses or expands, no longer fails, or fails with other bits.
TEST_F(Compatibility, CasesOfMutantsAreReplayedAsThen) {
  ExpectAsThen("replay-mutants", "replay corpus/mutants");
}

// Fails if a case of a plug-in does so, or if a new, fixed or regression case moves to another state.
TEST_F(CompatibilityPlugIn, CasesAreReplayedAsThen) {
  ExpectAsThen("replay-plugins", "replay corpus/plugins");
}

// Fails if the text of a stored case changes: diffs of a corpus are made of it.
TEST_F(Compatibility, CasesAreShownByteForByte) {
  const Outcome o = Run("show corpus/mutants corpus/plugins");
  EXPECT_EQ(o.status, 0) << Err();
  EXPECT_EQ(o.out, Slurp(Stored("expected/show.txt")));
}

// Fails if a dump is read as another problem, judged by other bounds, or diagnosed otherwise.
TEST_F(Compatibility, DumpsAreJudgedAsThen) {
  ExpectAsThen("check-clean", "check dumps/clean.safetensors --rows all");
  ExpectAsThen("check-wrong", "check dumps/wrong.safetensors --rows all");
  ExpectAsThen("check-inputs", "check dumps/inputs.safetensors --rows all");
}

// Fails if a finished campaign cannot be opened, runs further cases, or loses or rewrites its findings.
TEST_F(CompatibilityPlugIn, FinishedCampaignStaysAsItWas) {
  ExpectAsThen("finished", "fuzz --resume campaigns/finished");
  for (const char* folder : {"findings", "slips"}) {
    EXPECT_EQ(Content(work_ / "campaigns/finished" / folder),
              Content(Stored("campaigns/finished") / folder));
  }
}

// Fails if merge cannot read a campaign of an earlier version, or renames, drops or rewrites a case
// that it has judged again: all findings, and the slip, which becomes confirmed.
TEST_F(CompatibilityPlugIn, FinishedCampaignIsMergedAsThen) {
  const Outcome o = Run("merge campaigns/finished --out merged");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  auto merged = Content(work_ / "merged");
  for (const auto& [name, content] : Content(Stored("campaigns/finished/slips"))) {
    EXPECT_EQ(merged.erase(name), 1u) << name;
  }
  EXPECT_EQ(merged, Content(Stored("campaigns/finished/findings")));
}

// Fails if an interrupted campaign is refused, starts anew, or ends in other totals than it did then:
// by another plan, another case, or a case counted twice.
TEST_F(Compatibility, InterruptedCampaignGoesOnAsThen) {
  ExpectAsThen("interrupted", "fuzz --resume campaigns/interrupted");
  EXPECT_THAT(Err(), HasSubstr("item 27 was in flight when the last run ended"));
}

// Fails if a journal with a torn last line, of a campaign killed while it shrank its only finding, is
// refused, is resumed silently, or loses that finding.
TEST_F(Compatibility, TornCampaignGoesOnAsThen) {
  ExpectAsThen("torn", "fuzz --resume campaigns/torn");
  EXPECT_THAT(Err(), HasSubstr("the journal's last line was torn and is dropped (70 bytes)"));
  EXPECT_EQ(std::distance(fs::directory_iterator(work_ / "campaigns/torn/findings"), {}), 1);
}

// Fails if a journal of format 1 is taken for one of the current format, is refused without words, or
// is written to.
TEST_F(Compatibility, JournalOfFormatOneIsRefusedInWords) {
  const Outcome o = Run("fuzz --resume campaigns/journal-1");
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.last, "plumb: verdict=usage cases=0 judged=0 findings=0 status=2");
  EXPECT_THAT(Err(), HasSubstr("campaigns/journal-1/journal.jsonl line 1: not a journal of format "));
  EXPECT_EQ(Content(work_ / "campaigns/journal-1"), Content(Stored("campaigns/journal-1")));
}

// Fails if a seed stands for other cases, a recipe for other values, or an output of the operator has
// other bits: the largest error over bound of each output is among the totals.
TEST_F(Compatibility, CampaignsOfASeedAreAsThen) {
  ExpectAsThen("host", "fuzz --target host --budget 1400cases --seed 11 --out h");
  ExpectAsThen("host-hopper", "fuzz --target host-hopper --budget 600cases --seed 12 --out hh");
}

}  // namespace
}  // namespace plumbline::fuzz

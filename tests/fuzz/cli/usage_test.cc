// SPDX-License-Identifier: Apache-2.0
//
// What the built program says to somebody who mistypes: one line that names the argument and what was
// probably meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;

class Usage : public testing::Program {
 protected:
  // Returns the first line on stderr.
  std::string Complaint(const std::string& arguments) {
    Run(arguments);
    const std::string err = Err();
    return err.substr(0, err.find('\n'));
  }
};

// Fails if a message lacks what was probably meant, or puts the argument into CLI11's reversed list.
TEST_F(Usage, NamesWhatWasMeant) {
  std::ofstream(work_ / "p.so") << "no library";
  const std::vector<std::pair<const char*, const char*>> said = {
      {"fuzz --targt host", "plumb: plumb fuzz has no option '--targt'. Did you mean --target?"},
      {"fuzz --target host --budgte=5s",
       "plumb: plumb fuzz has no option '--budgte'. Did you mean --budget?"},
      {"check --rwos 3", "plumb: plumb check has no option '--rwos'. Did you mean --rows?"},
      {"fuzz host", "plumb: plumb fuzz takes no argument 'host'. Did you mean --target host?"},
      {"replya x", "plumb: there is no command 'replya'. Did you mean replay?"},
      {"hunt", "plumb: there is no command 'hunt'."},
      {"fuzz --target host --budget 5000",
       "plumb: --budget: '5000': of what? 5000s is a time, 5000cases a number of cases"},
      {"fuzz --target host --case-timeout 5", "plumb: --case-timeout: '5': of what? 5s is a time"},
      {"fuzz --target host --regime offset", "Did you mean common-offset"},
      {"fuzz --target host --regime raged-tail",
       "there is no regime 'raged-tail'. Did you mean ragged-tail?"},
      {"fuzz --target hots", "plumb: there is no target 'hots'. Did you mean host? Targets: host, "},
      {"fuzz --target tail-unmasked", "Did you mean mutant:tail-unmasked"},
      {"fuzz --target ./p.so", "A shared library is plugin:./p.so (that file exists)."},
      {"fuzz --target ./q.so", "A shared library is plugin:./q.so (there is no such file)."},
  };
  for (const auto& [arguments, words] : said) {
    EXPECT_THAT(Complaint(arguments), HasSubstr(words)) << arguments;
    EXPECT_THAT(Err(), Not(HasSubstr("Usage:"))) << "help scrolls the message away";
    EXPECT_LT(Err().size(), 500U) << Err();
  }
}

// Fails if a campaign is announced that does not begin.
TEST_F(Usage, NothingIsAnnouncedThatDoesNotBegin) {
  for (const char* arguments : {"fuzz --target ./p.so", "fuzz --target host --regime nope"}) {
    EXPECT_THAT(Run(arguments).out, StartsWith("plumb: verdict=")) << arguments;
  }
  const std::string once = "fuzz --target host --blind --budget 2cases --seed 1 --out again";
  ASSERT_EQ(Run(once).status, 0) << Err();
  EXPECT_THAT(Run(once).out, StartsWith("plumb: verdict=usage"));
  EXPECT_THAT(Err(), StartsWith("plumb: again already holds a campaign: go on with it by `plumb fuzz "
                                "--resume again`, or name another --out\n"));
}

// Fails if a resume that draws nothing, or that has nothing to resume, does not say why.
TEST_F(Usage, AResumeSaysWhyItDrawsNothing) {
  std::filesystem::create_directory(work_ / "empty");
  EXPECT_EQ(Complaint("fuzz --resume empty"), "plumb: empty holds no campaign to go on with");
  ASSERT_EQ(Run("fuzz --target host --blind --budget 3cases --seed 1 --out h").status, 0);
  EXPECT_THAT(
      Run("fuzz --resume h").out,
      HasSubstr("note: the budget of 3cases is spent: no further case is drawn; a larger --budget "
                "goes on\n"));
  const Outcome spent = Run("fuzz --resume h --budget 1ms");
  EXPECT_THAT(spent.out, HasSubstr("note: the budget of 1ms is spent ("));
  EXPECT_THAT(spent.out, HasSubstr("goes on for a minute\n"));
  EXPECT_THAT(Run("fuzz --resume h --budget 4cases").out, Not(HasSubstr("is spent")));
}

// A build that replays after it fuzzes must not fail where nothing was found. Fails if it does, or if a
// folder that is no campaign's looks clean.
TEST_F(Usage, ACampaignWithoutFindingsHasNothingToReplay) {
  ASSERT_EQ(Run("fuzz --target host --blind --budget 2cases --seed 1 --out h").status, 0);
  for (const std::string folder : {"h", "h/findings", "h/findings/"}) {
    const Outcome o = Run("replay " + folder);
    EXPECT_EQ(o.status, 0) << folder << Err();
    EXPECT_EQ(o.out, folder +
                         ": this campaign has stored no finding: nothing to replay\n"
                         "plumb: verdict=clean cases=0 judged=0 findings=0 status=0\n");
  }
  EXPECT_EQ(Run("show h").status, 0);
  EXPECT_EQ(Run("merge h --out corpus").status, 0);
  EXPECT_EQ(Run("shrink h").status, 0);
  std::filesystem::create_directories(work_ / "other/findings");
  for (const char* folder : {"replay other", "replay other/findings", "replay h/logs",
                             "fuzz --target host --corpus h --out n"}) {
    EXPECT_EQ(Run(folder).status, 2) << folder;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// A campaign is killed again and again, its supervisor or one of its workers, by SIGKILL, which no
// process can catch, at moments that a seed picks. It is resumed each time, and at its end compared
// with the same campaign without a kill. Fails if a finding is lost, a case is lost or counted twice, a
// file is torn, a temporary file is left behind, a journal cannot be resumed, or a worker's death from
// outside is taken for a crash of its target.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fuzz/campaign/journal.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Kill : public testing::Program {
 protected:
  void SetUp() override {
    // A shrink step that is killed starts again, so the problem to be shrunk must be small, or nothing
    // ends.
    common_ = {"--target", "mutant:max-from-zero",
               "--target", "mutant:label-off-by-one",
               "--jobs",   "2",
               "--budget", "30cases",
               "--regime", "all-negative"};
  }

  // Returns the children of a process, from the kernel's list of all processes.
  static std::vector<pid_t> Children(pid_t parent) {
    std::vector<pid_t> children;
    DIR* proc = opendir("/proc");
    while (const dirent* entry = readdir(proc)) {
      const pid_t pid = std::atoi(entry->d_name);
      if (pid <= 0) continue;
      const std::string stat = testing::Slurp("/proc/" + std::to_string(pid) + "/stat");
      const size_t end = stat.rfind(") ");  // the end of the name; then state and parent
      if (end == std::string::npos) continue;
      std::istringstream rest(stat.substr(end + 2));
      char state = 0;
      pid_t its_parent = 0;
      rest >> state >> its_parent;
      if (its_parent == parent && state != 'Z') children.push_back(pid);
    }
    closedir(proc);
    return children;
  }

  size_t Below(size_t n) { return random_() % n; }

  // Runs the campaign in `folder` to its end, with at most `kills` kills. Returns the number of kills.
  int RunAndKill(const std::string& folder, const std::string& seed, int kills) {
    int done = 0;
    for (;;) {
      std::vector<std::string> words = {"fuzz"};
      if (fs::exists(work_ / folder / kJournalName)) {
        words.insert(words.end(), {"--resume", (work_ / folder).string()});
      } else {
        words.insert(words.end(), common_.begin(), common_.end());
        words.insert(words.end(), {"--seed", seed, "--out", (work_ / folder).string()});
      }
      const pid_t pid = Start(words);
      int status = 0, workers_killed = 0;
      for (;;) {
        if (done == kills) {
          EXPECT_EQ(waitpid(pid, &status, 0), pid);
          break;
        }
        // One worker is killed in a run: a case whose worker is killed twice in a row is a crash (the
        // kernel kills processes that take all memory), and the reference would not have it.
        const bool none_yet = workers_killed_ == 0 && done == kills - 1;  // else none would be
        const bool worker = workers_killed == 0 && (Below(3) == 0 || none_yet);
        // Short pauses are more frequent: the start of a run is where a journal is read and cut.
        const milliseconds pause(Below(2) == 0 ? Below(40) : Below(250));
        // However slow the machine is, this waits until there is a worker, or the program has ended.
        bool ended = false;
        while (worker && !ended && Children(pid).empty()) {
          std::this_thread::sleep_for(milliseconds(2));
          ended = waitpid(pid, &status, WNOHANG) == pid;
        }
        if (!ended) {
          std::this_thread::sleep_for(pause);
          ended = waitpid(pid, &status, WNOHANG) == pid;
        }
        if (ended) break;
        const std::vector<pid_t> workers = Children(pid);
        ++done;
        if (worker && !workers.empty()) {
          ++workers_killed;
          kill(workers[Below(workers.size())], SIGKILL);
          continue;
        }
        kill(pid, SIGKILL);
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        break;
      }
      workers_killed_ += workers_killed;
      // A worker that is killed before it has said that it is ready cannot be told from a target that
      // does not load. That ends the run, not the campaign.
      // With findings the status is theirs, and the summary has the error.
      const bool unavailable = WIFEXITED(status) && workers_killed > 0 &&
                               (WEXITSTATUS(status) == 4 || Summary(folder).Find("error") != nullptr);
      if (WIFEXITED(status) && !unavailable) {
        EXPECT_EQ(WEXITSTATUS(status), 1) << testing::Slurp(work_ / "started");
        return done;
      }
      // A folder without a whole header line cannot be resumed.
      const std::string journal = testing::Slurp(work_ / folder / kJournalName);
      if (journal.find('\n') == std::string::npos) fs::remove_all(work_ / folder);
    }
  }

  // Returns the totals without the numbers that depend on time or on the death of a worker.
  static Json Totals(const Json& summary) {
    Json totals = Json(Json::Array{});
    for (const Json& target : *summary.Find("targets")->as_array()) {
      Json::Object kept;
      for (const char* key : {"target", "cases", "pass", "fail", "vacuous", "skipped", "faults",
                              "signatures", "by_regime", "by_kind"}) {
        if (const Json* value = target.Find(key)) kept.emplace(key, *value);
      }
      totals.Append(std::move(kept));
    }
    return totals;
  }

  static std::set<std::string> Signatures(const Json& summary) {
    std::set<std::string> signatures;
    for (const Json& sighting : *summary.Find("sightings")->as_array()) {
      signatures.insert(*sighting.Find("target")->as_string() + " " +
                        *sighting.Find("signature")->as_string());
      EXPECT_NE(sighting.Find("kept"), nullptr) << "seen and never stored";
    }
    return signatures;
  }

  Json Summary(const std::string& folder) const {
    std::string error;
    const auto json = Json::Parse(testing::Slurp(work_ / folder / "summary.json"), &error);
    EXPECT_TRUE(json) << error;
    return json.value_or(Json());
  }

  void ExpectSound(const std::string& folder, const std::string& whole) {
    const Json parts = Summary(folder), reference = Summary(whole);
    ASSERT_NE(parts.Find("targets"), nullptr);
    EXPECT_EQ(Totals(parts), Totals(reference));
    EXPECT_EQ(Signatures(parts), Signatures(reference));
    std::set<std::string> listed;
    for (const Json& sighting : *parts.Find("sightings")->as_array()) {
      listed.insert(*sighting.Find("kept")->Find("file")->as_string());
    }
    // Every file is whole, and a finding names it, or named it before a kill.
    const CaseListing findings = ListCases(work_ / folder);
    EXPECT_THAT(findings.unreadable, IsEmpty());
    std::set<std::string> present;
    for (const fs::path& file : findings.files) {
      std::string error;
      EXPECT_TRUE(ReadCase(file, &error)) << error;
      present.insert("findings/" + file.filename().string());
    }
    EXPECT_TRUE(std::includes(present.begin(), present.end(), listed.begin(), listed.end()));
    for (const auto& entry : fs::recursive_directory_iterator(work_ / folder)) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
      EXPECT_NE(entry.path().parent_path().filename(), "shrinking") << entry.path();
      EXPECT_NE(entry.path().parent_path().filename(), "faults") << entry.path();
    }
    // No case has two "done" lines: it would be counted twice.
    std::istringstream journal(testing::Slurp(work_ / folder / kJournalName));
    std::map<std::string, int> done;
    for (std::string line; std::getline(journal, line);) {
      const size_t at = line.find("\"done\":[");
      if (at != std::string::npos) ++done[line.substr(at, line.find(',', at) - at)];
    }
    EXPECT_EQ(done.size(), 60U);
    for (const auto& [item, times] : done) EXPECT_EQ(times, 1) << item;
    std::string error;
    const std::optional<JournalState> state = ReadJournal(work_ / folder, &error);
    ASSERT_TRUE(state) << error;
    EXPECT_EQ(state->note, "");
  }

  void Torture(uint64_t seed, int kills) {
    random_.seed(seed);
    int done = 0;
    for (int campaign = 0; done < kills; ++campaign) {
      const std::string number = std::to_string(seed + static_cast<uint64_t>(campaign));
      const std::string whole = "whole" + number, parts = "parts" + number;
      std::string line = "fuzz --out " + whole + " --seed " + number;
      for (const std::string& word : common_) line += " " + word;
      ASSERT_EQ(Run(line).status, 1) << Err();
      const int before = done;
      done += RunAndKill(parts, number, kills - done);
      ExpectSound(parts, whole);
      ASSERT_FALSE(HasFailure()) << "campaign of seed " << number;
      ASSERT_GT(done, before) << "it ends before the first kill";
    }
    EXPECT_GT(workers_killed_, 0);
  }

  std::vector<std::string> common_;
  std::mt19937_64 random_;
  int workers_killed_ = 0;
};

// Both fail if a campaign with kills differs from one without.
TEST_F(Kill, TenTimes) { Torture(1, 10); }

using SlowKill = Kill;
TEST_F(SlowKill, FiveHundredTimes) { Torture(1000, 500); }

}  // namespace
}  // namespace plumbline::fuzz

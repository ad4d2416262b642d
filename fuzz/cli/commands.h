// SPDX-License-Identifier: Apache-2.0
//
// The commands of the program, without its command line. Each takes its options, prints for a person
// (or one JSON object, on the last line), and returns the exit status.

#ifndef PLUMBLINE_FUZZ_CLI_COMMANDS_H_
#define PLUMBLINE_FUZZ_CLI_COMMANDS_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/json.h"
#include "fuzz/campaign/options.h"

namespace plumbline::fuzz {

// Common to all commands: where output goes, how the program was called, and the flag that a signal
// sets.
struct Console {
  std::string program = "plumb";
  bool json = false;                   // one JSON object as the last line of stdout, the rest to stderr
  const std::atomic<bool>* interrupt;  // never null
  std::filesystem::path worker_program = "/proc/self/exe";

  std::FILE* human() const { return json ? stderr : stdout; }
  void Say(std::string_view text) const;       // prints the text unchanged, flushed
  void Complain(std::string_view text) const;  // "plumb: TEXT" on stderr
  // Every command ends with this: it prints the verdict line, or `result` with verdict, status, cases
  // and findings added.
  ExitStatus Finish(ExitStatus status, int64_t cases, int64_t findings, Json result = {}) const;
};

ExitStatus CommandFuzz(CampaignOptions options, const Console& console);

// Runs cases of production size on a device (fuzz/gpu/production/worker.h).
ExitStatus CommandProduction(CampaignOptions options, const Console& console);

struct ReplayCommand {
  std::vector<std::filesystem::path> paths;  // files, or folders, which stand for every case below them
  std::string target;                        // empty: the target that each case names
  std::chrono::milliseconds case_timeout{20'000};
  bool update = false;          // states that change (fuzz/cases/state.h) are written into the files
  std::filesystem::path junit;  // empty: none is written
};
ExitStatus CommandReplay(const ReplayCommand& command, const Console& console);

struct CaseFiles {
  std::vector<std::filesystem::path> paths;  // as above
};
ExitStatus CommandShow(const CaseFiles& files, const Console& console);
// Prints one file as stable text, and nothing else on stdout, for `git diff`.
ExitStatus CommandTextconv(const std::filesystem::path& file, const Console& console);

struct MergeCommand {
  std::vector<std::filesystem::path> paths;  // as above
  std::filesystem::path out;
  std::string target;  // empty: the target that each case names
  int64_t per_bucket = 3;
  std::chrono::milliseconds case_timeout{20'000};
};
ExitStatus CommandMerge(const MergeCommand& command, const Console& console);

struct CheckCommand {
  std::vector<std::filesystem::path> paths;  // dumps
  // Each target is used by itself. If none is given, recorded outputs are judged as a black box's, and
  // a dump without outputs is run on `host`.
  std::vector<std::string> targets;
  bool run = false;                // run the target even if a dump holds outputs
  std::filesystem::path contract;  // a target's description in JSON, whose contract is used instead
  int64_t rows = 64;               // 0: all
  uint64_t seed = 1;
  int threads = 2;
  std::chrono::milliseconds arbiter_time{10'000};
  std::chrono::milliseconds timeout{600'000};  // for the target's run
  std::filesystem::path out;  // the folder for a small case of a target that was run and fails
};
ExitStatus CommandCheck(const CheckCommand& command, const Console& console);

struct ShrinkCommand {
  std::vector<std::filesystem::path> paths;  // files, or folders, which stand for every case below them
  // The output file if there is one case, the output folder if there are several. If empty, each case
  // is written next to its input, named by its content.
  std::filesystem::path out;
  std::string target;  // empty: the one that the case names
  std::chrono::milliseconds time{30'000};
  std::chrono::milliseconds case_timeout{20'000};
};
ExitStatus CommandShrink(const ShrinkCommand& command, const Console& console);

// Lists all built-in targets, or prints the description of one target of any kind.
ExitStatus CommandTargets(const std::string& target, const Console& console);

struct SelftestCommand {
  std::string mutant;  // empty: all of them, and their target, which must stay clean
  enum class Family : uint8_t { kHost, kHopper, kCuda };
  Family family = Family::kHost;  // the mutants' family
  uint64_t seed = 1;
  int seeds = 1;       // each mutant is hunted with this many seeds, from `seed` on
  int64_t matrix = 0;  // cases of each regime alone on each mutant; 0: none
  int jobs = 0;        // mutants at the same time; 0: one per hardware thread
  Budget budget{.time = {}, .cases = 1000};
  std::filesystem::path out;  // empty: a temporary folder, removed if all is well
};
ExitStatus CommandSelftest(const SelftestCommand& command, const Console& console);

// `parser`: name and version of the command-line library, which only the program itself may include.
// `probe`: also measures whether the GPU keeps what the CUDA targets declare (fuzz/gpu/probe/probe.h).
// A claim that it does not keep is a finding; without a GPU the status is 4.
ExitStatus CommandDoctor(const Console& console, std::string_view parser, bool probe);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CLI_COMMANDS_H_

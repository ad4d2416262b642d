// SPDX-License-Identifier: Apache-2.0
//
// Runs cases of production size: they are expanded on the device, given to every target, and judged
// there by one evaluation of the oracle (oracle/cuda/device_oracle.h). Apart from the values these are
// checked: a second run, over other garbage in outputs and workspace, gives the same bits; inputs keep
// theirs; nothing is written between or around elements; first_invalid_row is right.
//
// The journal, DIR/journal.jsonl, has one JSON object a line: the options, then for each case "begin",
// the stages that it enters, and "case" with the results. It shows where a process was that ended
// inside a case.

#ifndef PLUMBLINE_FUZZ_GPU_PRODUCTION_WORKER_H_
#define PLUMBLINE_FUZZ_GPU_PRODUCTION_WORKER_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/base/units.h"

namespace plumbline::fuzz {

inline constexpr std::string_view kProductionFormat = "plumb-production-1";

// Returns true if the folder holds a campaign of this kind.
bool IsProductionCampaign(const std::filesystem::path& folder);

struct ProductionJournal {
  Json header;
  std::vector<Json> cases;  // their "case" and "lost" lines, in the order in which they came
  // The case that was begun and not finished, and the last stage that it entered.
  std::optional<int64_t> open_case;
  std::string open_recipe, open_stage;
  int64_t next = 0;  // one more than the largest index of a begun case
};
// Returns nullopt, with the reason, if there is no journal or a line before the last one is invalid. A
// torn last line is cut off.
std::optional<ProductionJournal> ReadProductionJournal(const std::filesystem::path& folder,
                                                       std::string* error);
// Appends one line, whole or not at all. Returns false, with the reason, if it cannot.
bool AppendLine(const std::filesystem::path& folder, const Json& line, std::string* error);

// The child's work: cases [first, last) of the seed, or the one recipe, until the deadline. Its exit
// status is kDone, kDeadline, kDeviceLost (the last case is in the journal with its finding), or
// kCannot, with the reason on stderr.
struct ProductionWork {
  std::vector<std::string> targets;
  uint64_t seed = 0;
  std::string recipe;
  int64_t first = 0, last = 0;
  std::chrono::milliseconds time{0};  // 0: no deadline
  std::filesystem::path out;
  pid_t parent = 0;
};
inline constexpr int kProductionDone = 0, kProductionDeadline = 10, kProductionLost = 11,
                     kProductionCannot = 12;
int RunProduction(const ProductionWork& work);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PRODUCTION_WORKER_H_

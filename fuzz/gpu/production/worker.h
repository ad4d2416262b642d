// SPDX-License-Identifier: Apache-2.0
//
// Cases of production size: expanded on the device, given to every target, judged there against one
// evaluation of the oracle (oracle/cuda/device_oracle.h). What is checked beside the values: that a
// second run, over other garbage in outputs and workspace, gives the same bits; that inputs keep
// theirs; that nothing is written between or around elements; that first_invalid_row is right.
//
// The journal, DIR/journal.jsonl, has one JSON object a line: what was asked, then for each case
// "begin", the stages that it enters, and "case" with the results. A process that ends inside a case
// has left where it was.

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

// True if the folder holds a campaign of this kind.
bool IsProductionCampaign(const std::filesystem::path& folder);

struct ProductionJournal {
  Json header;
  std::vector<Json> cases;  // their "case" and "lost" lines, in the order in which they came
  // The case that was begun and not finished, and the last stage that it entered.
  std::optional<int64_t> open_case;
  std::string open_recipe, open_stage;
  int64_t next = 0;  // one more than the largest case begun
};
// nullopt, with the reason, if there is none or a line before the last is none. A torn last line is
// cut off.
std::optional<ProductionJournal> ReadProductionJournal(const std::filesystem::path& folder,
                                                       std::string* error);
// One line, whole or not at all. False, with the reason.
bool AppendLine(const std::filesystem::path& folder, const Json& line, std::string* error);

// The child's work: cases [first, last) of the seed, or the one recipe, until the deadline. Its exit
// status: kDone, kDeadline, kDeviceLost (the last case is in the journal with its finding), or
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

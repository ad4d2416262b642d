// SPDX-License-Identifier: Apache-2.0
//
// What a campaign is asked to do: which cases (targets, seed, regime or one recipe), how many, and
// where the results go. The first group decides what each case is, so a resumed campaign keeps it.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_OPTIONS_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/json.h"

namespace plumbline::fuzz {

// Time on the clock, or cases for each target.
struct Budget {
  std::chrono::milliseconds time{60'000};  // used where cases is 0
  int64_t cases = 0;
  bool operator==(const Budget&) const = default;
};

// "90s", "10m", "2h", "250ms", "5000cases". Refuses, naming the text: a missing unit, 0, overflow.
std::optional<Budget> ParseBudget(std::string_view text, std::string* error);
std::string Format(const Budget& budget);

// Decimal, or hexadecimal after 0x.
std::optional<uint64_t> ParseSeed(std::string_view text, std::string* error);

struct CampaignOptions {
  std::vector<std::string> targets;
  uint64_t seed = 0;
  std::string regime;  // empty: all of them in turn
  std::string recipe;  // not empty: this one case on each target, and budget is not looked at

  // Absent: what the campaign in `out` had, or the default of a new one (60 s, no limit, 20 s).
  std::optional<Budget> budget;
  std::optional<int64_t> stop_after;  // distinct findings; 0: no such limit
  std::optional<std::chrono::milliseconds> case_timeout;

  std::filesystem::path out;
  bool resume = false;  // go on with the campaign in `out`
  int jobs = 0;         // cases at the same time; 0: one per hardware thread
  std::chrono::milliseconds shrink_time{30'000};
  std::filesystem::path program = "/proc/self/exe";  // see WorkerSpec

  std::string started;  // UTC, of the campaign's first run

  Budget GetBudget() const { return budget.value_or(Budget{}); }
  int64_t GetStopAfter() const { return stop_after.value_or(0); }
  std::chrono::milliseconds GetCaseTimeout() const {
    return case_timeout.value_or(std::chrono::milliseconds(20'000));
  }
  // Cases of the whole campaign, all targets together; nullopt where only the clock limits them.
  std::optional<int64_t> Cases() const;
};

// For the journal's first line, and back; nullopt names what is missing.
Json ToJson(const CampaignOptions& options);
std::optional<CampaignOptions> CampaignOptionsFromJson(const Json& json, std::string* error);

// "20250131T235959Z", now.
std::string UtcStamp();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_OPTIONS_H_

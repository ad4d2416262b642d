// SPDX-License-Identifier: Apache-2.0
//
// The options of a campaign: the cases (targets, seed, regime or one recipe), their number, and the
// folder of the results. The first group decides what each case is, so a resumed campaign keeps it.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/base/units.h"
#include "fuzz/campaign/known.h"
#include "fuzz/campaign/search/options.h"
#include "fuzz/infer/infer.h"

namespace plumbline::fuzz {

// The cases of a folder when the campaign began: a resumed one must replay the same.
struct CorpusStamp {
  int64_t cases = 0;
  uint64_t hash = 0;  // hash of names and contents
  bool operator==(const CorpusStamp&) const = default;
};

struct CampaignOptions : CaseOptions {
  std::vector<std::string> targets;
  // What each target can do, by target: the JSON of its capabilities. Its cases are drawn within them
  // (fuzz/campaign/search/target_draws.h). Filled in when the campaign begins; empty in journals of
  // earlier versions: everything.
  std::vector<std::string> capabilities;
  // The shapes that cases have, for targets that compile for each shape; 0: any. Absent: as many as the
  // measured time of a first call allows, 0 below kSlowFirstCall. A campaign that has begun holds it.
  std::optional<int64_t> palette;
  bool palette_by_class = false;  // as in Palette
  std::filesystem::path corpus;   // replayed first; empty: none
  CorpusStamp corpus_stamp;       // filled in when the campaign begins

  // If absent, they are those of the campaign in `out`, or the defaults of a new one (60 s, no limit,
  // 20 s, or 120 s for cases of production size).
  std::optional<Budget> budget;
  std::optional<int64_t> stop_after;  // distinct findings; 0: no such limit
  std::optional<std::chrono::milliseconds> case_timeout;
  // The deadline of a case whose shape is new to its worker, where there is a palette.
  std::chrono::milliseconds first_call_timeout{300'000};

  // Findings that do not decide the status. They are given to each run, and are not in the journal.
  std::vector<KnownFinding> known;

  std::filesystem::path out;
  bool resume = false;  // continue the campaign in `out`
  int jobs = 0;         // cases at the same time; 0: one per hardware thread
  // Limits for one finding, the second where a target compiles for each shape: an explanation tries
  // some sixty shapes.
  std::chrono::milliseconds shrink_time{30'000}, compiling_shrink_time{120'000};
  std::optional<int64_t> shrink_tries;       // limits each finding in place of the time
  int64_t worker_memory = int64_t{4} << 30;  // bytes that a worker may allocate; 0: no limit
  int64_t least_free = int64_t{64} << 20;    // bytes free in `out` below which the campaign ends
  std::filesystem::path program = "/proc/self/exe";  // see WorkerSpec

  // What was inferred of targets before the campaign began; a resumed one keeps it.
  std::vector<Inference> inferred;
  std::string started;  // UTC, of the campaign's first run
  // The interpreter of a target in Python: a resumed campaign goes on with it unless told another.
  std::string python;

  // True if a target compiles for each shape, as far as is known: not before the campaign has begun.
  bool Compiles() const { return palette.value_or(0) > 0; }
  // Returns WorkerSpec::first_call.
  std::chrono::milliseconds FirstCall() const {
    return Compiles() ? first_call_timeout : std::chrono::milliseconds(0);
  }
  std::chrono::milliseconds GetShrinkTime() const {
    return Compiles() ? compiling_shrink_time : shrink_time;
  }
  Budget GetBudget() const { return budget.value_or(Budget{}); }
  int64_t GetStopAfter() const { return stop_after.value_or(0); }
  std::chrono::milliseconds GetCaseTimeout() const {
    return case_timeout.value_or(std::chrono::milliseconds(production ? 120'000 : 20'000));
  }
  // Returns the cases of the whole campaign, all targets together; nullopt if only the clock limits
  // them. The stored cases of a gate come on top of its budget.
  std::optional<int64_t> Cases() const;
};

// The journal's first line.
void Fields(FieldVisitor& io, CampaignOptions& options);

}  // namespace plumbline::fuzz

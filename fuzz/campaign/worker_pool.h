// SPDX-License-Identifier: Apache-2.0
//
// The threads of one run of a campaign. Each has its own worker for every target, takes a sighting that
// is to be shrunk before it takes a new case, and ends when there is neither.

#ifndef PLUMBLINE_FUZZ_CAMPAIGN_WORKER_POOL_H_
#define PLUMBLINE_FUZZ_CAMPAIGN_WORKER_POOL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "fuzz/campaign/arbiter_schedule.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/campaign_state.h"
#include "fuzz/campaign/time_split.h"
#include "fuzz/cases/file.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

class Stopwatch {
 public:
  double Lap() const {  // seconds
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void Restart() { begin_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class WorkerPool {
 public:
  WorkerPool(const CampaignOptions& options, CampaignState* campaign_state,
             const std::atomic<bool>& interrupt, CampaignObserver* observer)
      : options_(options),
        campaign_state_(*campaign_state),
        interrupt_(interrupt),
        observer_(*observer) {
    const auto targets = static_cast<double>(options.targets.size());
    for (const auto& [target, tally] : campaign_state->Tallies()) cases_before_ += tally.cases;
    for (const Sighting& sighting : campaign_state->Sightings()) {
      if (!sighting.kept || sighting.kept->file.empty()) continue;
      std::error_code gone;
      const auto bytes = std::filesystem::file_size(options.out / sighting.kept->file, gone);
      if (gone) continue;
      ++stored_files_;
      stored_bytes_ += static_cast<int64_t>(bytes);
    }
    for (size_t t = 0; t < options.targets.size(); ++t) {
      schedules_.emplace_back(kArbitratedPerMinute / targets);
    }
  }

  void Run();
  // Returns why the run ended early; kClean if it did not, kInterrupted if work was left behind.
  ExitStatus status() const {
    return failed_ != ExitStatus::kClean ? failed_
           : cut_short_                  ? ExitStatus::kInterrupted
                                         : ExitStatus::kClean;
  }
  const std::string& error() const { return error_; }
  const TimeSplit& time() const { return time_; }  // valid after Run

 private:
  using Runners = std::vector<std::unique_ptr<CaseRunner>>;

  void Work(int job);
  Runners MakeRunners(int job) const;
  // Makes the request that is sent; nullopt, with the reason, if the case's file cannot be read any
  // more.
  static std::optional<Request> RequestOf(const Item& item, std::string* error);
  // Both return false if this thread is to end.
  bool RunItem(const Item& item, CaseRunner* runner);
  bool PursueSighting(const Sighting& sighting, int job, Runners* runners);
  // Returns nullopt, with the reason, if the case's file cannot be read any more.
  static std::optional<FailingProblem> StartOf(const Sighting& sighting, std::string* error);
  std::optional<Pursued> PursueFrom(const Sighting& sighting, int job, CaseRunner* runner);
  // Counts `bytes` more under findings/. Returns an empty text if they may be stored, else why not.
  std::string Room(int64_t bytes);
  void StoreCase(const Sighting& sighting, Pursued pursued);
  void StoreOtherFindings(const std::string& target, const std::vector<Case>& others);
  void StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c);
  // Records why nothing more can be done; kInterrupted: work is left behind.
  void End(ExitStatus status, const std::string& error);
  bool Ending();
  void AddTime(double TimeSplit::*part, double seconds);
  void SetActivity(int job, std::string text);
  Progress Snapshot();

  const CampaignOptions& options_;
  CampaignState& campaign_state_;
  const std::atomic<bool>& interrupt_;
  const Stopwatch begin_;
  int64_t cases_before_ = 0;               // those of earlier runs
  std::deque<ArbiterSchedule> schedules_;  // by target

  std::mutex observer_mutex_;
  CampaignObserver& observer_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::string> activity_;  // by job
  int working_ = 0;
  TimeSplit time_;
  int64_t stored_files_ = 0, stored_bytes_ = 0;  // in findings/
  bool cut_short_ = false;
  ExitStatus failed_ = ExitStatus::kClean;
  std::string error_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CAMPAIGN_WORKER_POOL_H_

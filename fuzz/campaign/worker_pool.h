// SPDX-License-Identifier: Apache-2.0
//
// The threads of one run of a campaign. Each has its own worker for every target. One takes a finding
// that is to be shrunk before it takes a new case, if the schedule has time for it (shrink_schedule.h);
// when there are no more cases, all do. The findings' part is in pursuits.cc.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/campaign/arbiter_schedule.h"
#include "fuzz/campaign/campaign_state.h"
#include "fuzz/campaign/in_order.h"
#include "fuzz/campaign/progress.h"
#include "fuzz/campaign/shrink_schedule.h"
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
  // Starts the threads. All must outlive this; its end waits for theirs.
  WorkerPool(const CampaignOptions& options, CampaignState* campaign_state,
             const std::atomic<bool>& interrupt);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Waits for events, for `patience` at most, and hands them over in their order. Returns false once
  // every thread has ended and all events were handed over. Also ends the run when the disk is nearly
  // full.
  bool Next(std::chrono::milliseconds patience, std::vector<CampaignEvent>* events);
  Progress GetProgress();
  // Returns why the run ended early; kClean if it did not, kInterrupted if work was left behind.
  ExitStatus status() const {
    return failed_ != ExitStatus::kClean ? failed_
           : cut_short_                  ? ExitStatus::kInterrupted
                                         : ExitStatus::kClean;
  }
  const std::string& error() const { return error_; }
  const TimeSplit& time() const { return time_; }  // valid once Next has returned false

 private:
  // What a job shrinks.
  struct Activity {
    std::string text;               // empty: nothing
    int64_t values = 0;             // of the problem that it began with
    std::atomic<int64_t> best{-1};  // of the best so far, as the pursuit writes it; -1: no step yet
  };
  // A case that passed and is not recorded yet.
  struct Finished {
    Item item;
    Judged judged;
    double seconds = 0;
  };
  // What a job does while its worker judges a case: it records the one before and draws the next.
  struct Beside {
    std::optional<Finished> finished;
    std::optional<Item> next;
    bool wait = false;  // there is no next one until cases of other jobs have ended
    ItemGroup group;    // of a gate
  };
  // A finding that a job shrinks.
  struct Pursuit {
    Sighting sighting;
    std::vector<std::string> companions;  // signatures that are parts of it so far
    std::chrono::milliseconds time{0};
  };
  using Runners = std::vector<std::unique_ptr<CaseRunner>>;

  void Work(int job);
  Runners MakeRunners(int job) const;
  // Each of these three returns nullopt, and ends the run, if a case's file cannot be read any more.
  std::optional<Case> ReadStored(const std::filesystem::path& file);
  std::optional<Request> RequestOf(const Item& item);
  std::optional<FailingProblem> StartOf(const Sighting& sighting);
  // Returns true if the target answered; else ends the run.
  bool Answered(Judged::Kind kind, const std::string& error);
  void RecordFinished(Beside* beside);
  void TakeNext(Beside* beside);
  void Record(Finished finished);
  void RecordNow(const Finished& finished);
  // Returns whether the arbiter is to be asked about a case that fails, or that passed.
  bool ShowsNew(const Item& item, const CaseResult& result, const ItemGroup& group);
  bool MayHideAnother(const Item& item, const CaseResult& result, const ItemGroup& group);
  // Judges once more a case of signatures that a rounding explains in others: what it does not explain
  // here has signatures of its own, of which the arbiter is asked, too. Else leaves *judged.
  void TellApart(const Item& item, Request request, CaseRunner* runner, Beside* beside, Judged* judged);
  bool AskOnPass(const Item& item, double seconds);
  // Both return false if this thread is to end.
  bool RunItem(const Item& item, CaseRunner* runner, Beside* beside);
  bool PursueSighting(const Pursuit& pursuit, int job, Runners* runners);
  // `hunting`: there are cases to be drawn.
  std::optional<Pursuit> NextPursuit(bool hunting);
  void EndPursuit(const Pursuit& pursuit, double seconds);
  std::optional<Pursued> PursueFrom(const Pursuit& begun, int job, CaseRunner* runner);
  // Counts `bytes` more under findings/. Returns an empty text if they may be stored, else why not.
  std::string Room(int64_t bytes);
  void StoreCase(const Sighting& sighting, Pursued pursued);
  void StoreRecipe(const Pursuit& pursuit);
  void Keep(const Sighting& sighting, StoredFinding kept);
  void StoreOtherFindings(const std::string& target, const std::vector<Case>& others);
  void StoreFault(const std::string& name, const std::string& what, Json witness, const Case* c);
  // Records why nothing more can be done; kInterrupted: work is left behind.
  void End(ExitStatus status, const std::string& error);
  bool Ending();
  void AddTime(double TimeSplit::*part, double seconds);
  void SetActivity(int job, std::string text, int64_t values);
  void Report(CampaignEvent event);

  const CampaignOptions& options_;
  CampaignState& campaign_state_;
  const std::atomic<bool>& interrupt_;
  const Stopwatch begin_;
  int64_t cases_before_ = 0;               // those of earlier runs
  std::deque<ArbiterSchedule> schedules_;  // by target

  InOrder<Finished> in_order_;  // of a gate

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<CampaignEvent> events_;  // not handed over yet
  std::deque<Activity> activity_;      // by job
  int working_ = 0;
  TimeSplit time_;
  ShrinkSchedule shrink_schedule_;
  int64_t stored_files_ = 0, stored_bytes_ = 0;  // in findings/
  bool cut_short_ = false;
  ExitStatus failed_ = ExitStatus::kClean;
  std::string error_;

  Stopwatch since_disk_;
  std::vector<std::jthread> threads_;  // last: they end before the rest does
};

}  // namespace plumbline::fuzz

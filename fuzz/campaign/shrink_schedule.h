// SPDX-License-Identifier: Apache-2.0
//
// When a job shrinks a finding, and for how long. Under a budget of time shrinking takes a third of the
// jobs' time at most, a sixth if the target compiles for each shape, so that hunting goes on; a finding
// that has no time now waits, for the end of the hunt if need be, where those that are left share what
// is left of that part, and each gets a few seconds at least. Under a budget of cases a finding does
// not wait for time.
//
// The schedule has no clock of its own. No method is thread safe.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace plumbline::fuzz {

class ShrinkSchedule {
 public:
  using milliseconds = std::chrono::milliseconds;

  static constexpr milliseconds kLeast{3'000};  // for one finding, unless `most` is less

  // `budget`: the time of the campaign, all runs together; nullopt: it has none. `before`: of it, what
  // earlier runs took. `most`: for one finding. `compiles`: almost all of shrinking's time is that of
  // first calls, of which a campaign has its own.
  ShrinkSchedule(std::optional<milliseconds> budget, milliseconds before, int jobs, milliseconds most,
                 bool compiles = false);

  // Returns the time for the next of `waiting` findings, `elapsed` after the campaign began; nullopt if
  // it is to wait. `hunting`: there are cases to be drawn.
  std::optional<milliseconds> Begin(milliseconds elapsed, int64_t waiting, bool hunting);
  // What had begun with that time has ended.
  void End(milliseconds granted, milliseconds took);

 private:
  const std::optional<milliseconds> budget_;
  const milliseconds before_;
  const int64_t jobs_;
  const milliseconds most_;
  const int64_t share_;  // shrinking takes one part of so many
  int64_t running_ = 0;
  milliseconds granted_{0}, spent_{0};  // to those that are running; by those that have ended
};

}  // namespace plumbline::fuzz

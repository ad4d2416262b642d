// SPDX-License-Identifier: Apache-2.0
//
// The time of one run of a campaign, by purpose. `jobs` threads ran for `wall` seconds. The harness's
// own share is the rest after target, oracle, arbiter and shrinking.

#pragma once

#include <string>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {

struct TimeSplit {
  int jobs = 0;
  double wall = 0;       // seconds on the clock; those below are summed over all jobs
  double target = 0;     // in the target: the runs that judging a case takes
  double oracle = 0;     // computing the right values, and comparing
  double arbiter = 0;    // judging again with the arbiter: failures, and a share of the passes
  double shrinking = 0;  // from a sighting to its stored case
  double expansion = 0;  // expanding recipes: a part of the harness's own share
  // Jobs had no case to run, for one that others were running: another part of it. Guided cases are
  // drawn from results (fuzz/campaign/search/search.h), and a gate shrinks behind its cases.
  double waiting = 0;

  double Total() const { return jobs * wall; }
  double Harness() const { return Total() - target - oracle - arbiter - shrinking; }
};

Json ToJson(const TimeSplit& time);
// "2 jobs for 60.0 s: running the target 31 %, computing what is right 52 %, ...".
std::string Describe(const TimeSplit& time);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// One stored case on one target, in a fresh worker process, the arbiter asked: what `plumb replay` and
// `plumb merge` have in common.

#ifndef PLUMBLINE_FUZZ_TRIAGE_REPLAY_H_
#define PLUMBLINE_FUZZ_TRIAGE_REPLAY_H_

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "fuzz/cases/file.h"
#include "fuzz/cases/state.h"
#include "fuzz/cli/commands.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

// One runner a target, kept from case to case.
class Runners {
 public:
  Runners(const Console& console, std::chrono::milliseconds deadline)
      : console_(console), deadline_(deadline) {}
  CaseRunner& For(const std::string& target);

 private:
  const Console& console_;
  std::chrono::milliseconds deadline_;
  std::map<std::string, std::unique_ptr<CaseRunner>> runners_;
};

struct Replay {
  Judged::Kind kind = Judged::Kind::kJudged;
  std::string error;   // kUnavailable
  Replayed what{};     // kJudged, and all below
  std::string detail;  // one line
  CaseResult result;
  std::string target_version;  // as the target says it
  double seconds = 0;
};

Replay ReplayCase(const Case& c, CaseRunner* runner);

// Moves the case along, with an entry in extra.history (the newest eight are kept). False: it stays.
bool Advance(Case* c, const Replay& replay);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_REPLAY_H_

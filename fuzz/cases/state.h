// SPDX-License-Identifier: Apache-2.0
//
// The state of a stored case says what a replay on its own target is expected to show. A replay that
// shows otherwise moves the case to another state:
//
//   state       expected       moves
//   new         nothing yet    fails -> confirmed
//   confirmed   fails          passes -> fixed
//   fixed       passes         passes again -> regression; fails -> confirmed (it was not fixed)
//   regression  passes         never: kept for good, and a failure is a defect that came back
//
// "Fails" means with the stored signature, in a fresh process, the arbiter asked. Any other outcome
// leaves the state unchanged: another failure, a failure in one of two runs, a skipped case, or one
// that cannot be judged. There is one exception: a fixed case that fails in any way goes back to
// confirmed.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plumbline::fuzz {

enum class CaseState : uint8_t { kNew, kConfirmed, kFixed, kRegression };

inline constexpr std::array<std::string_view, 4> kCaseStateNames = {"new", "confirmed", "fixed",
                                                                    "regression"};
std::string_view Name(CaseState state);

// The result of a replay.
enum class Replayed : uint8_t {
  kFails,             // with the stored signature
  kFailsOnce,         // likewise, and not when it was judged again
  kFailsDifferently,  // with others only
  kPasses,
  kSkipped,  // the target does not do such problems
  kVacuous,  // nothing in it could be judged
  kFault,    // the harness is at fault
};

std::string_view Name(Replayed replayed);  // "still fails", "fails once", "fails differently", ...
CaseState After(CaseState state, Replayed replayed);

// True if a regression or a fixed case fails, in whatever way.
bool CameBack(CaseState state, Replayed replayed);

}  // namespace plumbline::fuzz

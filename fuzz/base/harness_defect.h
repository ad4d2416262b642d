// SPDX-License-Identifier: Apache-2.0
//
// Defects that can be planted in the harness when it is compiled, so that its tests can be tested: each
// is compiled into a program of its own (tests/fuzz/mutants.cmake), which must fail. A build that
// defines nothing plants nothing, and the compiler leaves no trace of what is here.

#ifndef PLUMBLINE_FUZZ_BASE_HARNESS_DEFECT_H_
#define PLUMBLINE_FUZZ_BASE_HARNESS_DEFECT_H_

#include <cstdint>

namespace plumbline::fuzz {

enum class HarnessDefect : uint8_t {
  kNone,
  // Comparing (compare_runs.cc, examine.cc).
  kNaNPasses,          // two runs that differ, and one of them in a NaN, are alike
  kSignOfZeroIgnored,  // ... or in the sign of a zero
  kFirstElementOnly,   // only element 0 of an output is compared
  kUnspecifiedPasses,  // a case of which nothing was judged passes
  // Memory (placement.cc).
  kOneSidedGuard,      // what lies before a buffer is not looked at
  kInputsNotCompared,  // an input that changed is not noticed
  // Devices (device_run.cc).
  kScratchNotInspected,  // the bands around workspace and saved state are not looked at
  kLastErrorIgnored,     // an error that a run left behind is nobody's
  // The arbiter (second_opinion.cc).
  kArbiterIgnored,  // its answer is not compared
  // Workers (worker_process.cc, case_runner.cc).
  kDeathPasses,    // a worker that died has passed the case
  kHangPasses,     // ... or one that was killed at its deadline
  kKillIsBlamed,   // SIGKILL that does not come again is the target's fault
  kOnceIsDropped,  // what the second look does not see was nothing
  // The journal (journal.cc, campaign_state.cc).
  kStartNotWritten,     // a case is not announced
  kDoneBeforeSighting,  // a case is done before what it showed is written
  kTornLineKept,        // the next line is written behind half a line
  kCountedTwice,        // a case that is there twice counts twice
  // Reading files (safetensors.cc, json.cc).
  kLengthUnchecked,  // a tensor may end beyond the file
  kOverlapAccepted,  // two tensors may share bytes, or leave some out
  kDTypeUnchecked,   // an unknown dtype is fp32
  kDuplicateKeys,    // the last one counts
  // Shrinking (shrink_session.cc, pursuit.cc).
  kSignatureUnpinned,  // a candidate that fails in any way is taken
  kPassingIsTaken,     // ... or one that passes
  kTimeLimitIgnored,
  // Counting (tally.cc).
  kSkippedIsPassed,  // a case that was not run counts as judged and passed
  kVacuousIsPassed,  // ... or one of which nothing was judged
};

#ifdef PLUMBLINE_HARNESS_DEFECTS
// What the program is built with: tests/fuzz/support/planted_here.cc.
extern const HarnessDefect kPlantedHere;
// Internal linkage: the files of such a program that come from the archive plant nothing.
static inline bool Planted(HarnessDefect defect) { return kPlantedHere == defect; }
#else
static constexpr bool Planted(HarnessDefect) { return false; }
#endif

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_HARNESS_DEFECT_H_

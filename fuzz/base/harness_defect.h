// SPDX-License-Identifier: Apache-2.0
//
// Defects that can be built into the harness when it is compiled, so that its tests can be tested. Each
// is compiled into a program of its own (tests/fuzz/mutants.cmake), which must fail. A build that
// defines none has none, and the compiler leaves no trace of this file.

#pragma once

#include <cstdint>

namespace plumbline::fuzz {

enum class HarnessDefect : uint8_t {
  kNone,
  // Comparing (compare_runs.cc, examine.cc).
  kNaNPasses,          // two runs are alike if they differ where one of them has a NaN
  kSignOfZeroIgnored,  // ... or if they differ in the sign of a zero
  kFirstElementOnly,   // only element 0 of an output is compared
  kUnspecifiedPasses,  // a case in which nothing was judged passes
  // Relations (relation.cc, relation_columns.cc, relation_scaled.cc).
  kRelationNotCompared,    // results that differ are not noticed
  kRelationMassUnchecked,  // columns are moved whatever their logits are
  kRelationUntamed,        // values are scaled whatever their exponents are
  kConsistencyNotChecked,  // outputs are not compared with each other (consistency_findings.cc)
  // Memory (placement.cc).
  kOneSidedGuard,      // the band before a buffer is not checked
  kInputsNotCompared,  // an input that changed is not noticed
  // Devices (device_run.cc).
  kScratchNotInspected,  // the bands around workspace and saved state are not looked at
  kLastErrorIgnored,     // an error that a run left behind is not reported
  // The arbiter (second_opinion.cc).
  kArbiterIgnored,  // the arbiter's answer is not compared
  kSilenceIsKept,   // an element that it was not asked about does not say so
  // The two tiers (tiers.cc).
  kAssumedNotJudged,  // a target is judged by what it declares alone
  kSuspectIsWrong,    // what breaks an assumption alone is called wrong
  // Honest errors and their explanation (explain.cc, weight_columns.cc).
  kUnusedShortcut,  // a rounding explains an error that is not its own
  kRowsLeftOut,     // half of the rows have no part in what grad_weight is compared with
  // Workers (process.cc, case_runner.cc).
  kDeathPasses,    // a worker that died has passed the case
  kHangPasses,     // ... or one that was killed at its deadline
  kKillIsBlamed,   // a SIGKILL that does not come again is blamed on the target
  kOnceIsDropped,  // a finding that a second run does not show is dropped
  // The journal (journal.cc, campaign_state.cc).
  kStartNotWritten,     // a case is not announced
  kDoneBeforeSighting,  // a case is marked done before its findings are written
  kTornLineKept,        // the next line is written behind half a line
  kCountedTwice,        // a case that the journal has twice counts twice
  // Reading files (safetensors.cc, json.cc).
  kLengthUnchecked,  // a tensor may end beyond the end of the file
  kOverlapAccepted,  // two tensors may share bytes, or leave some out
  kDTypeUnchecked,   // an unknown dtype is fp32
  kDuplicateKeys,    // a duplicate key is accepted, and the last one counts
  // Shrinking (session.cc, pursuit.cc).
  kSignatureUnpinned,  // a candidate that fails in any way is taken
  kPassingIsTaken,     // ... or one that passes
  kTimeLimitIgnored,
  kShapesAreFree,   // a target compiles for as many shapes as the shrinker likes
  kRuleNotRefuted,  // a residue is stated without a try that could refute it (extent_rule.cc)
  // Findings of one cause (cause.cc, finding_groups.cc).
  kLinkIsCause,        // what shows another finding's signature is that finding
  kCompanionIsOutput,  // what was new in the same case is, whether or not the shrunk problem shows it
  kShrinkingFirst,     // shrinking takes the time that it can get (shrink_schedule.cc)
  // The covering design (covering.cc).
  kLevelDropped,  // the last level of each factor is never planned
  // Counting (tally.cc).
  kSkippedIsPassed,  // a case that was not run counts as judged and passed
  kVacuousIsPassed,  // ... or one in which nothing was judged
  // Gates (known.cc, summary.cc, worker_pool.cc).
  kKnownAcceptsAll,  // an entry accepts every finding of its target
  kFixedIsKept,      // an entry that no longer fails does not fail the gate
  kWorkerIsShared,   // a group of items begins in the worker of the one before
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

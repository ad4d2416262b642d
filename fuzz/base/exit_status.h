// SPDX-License-Identifier: Apache-2.0
//
// The status that the program ends with: the process's exit status and the word in its last line.

#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace plumbline::fuzz {

enum class ExitStatus : uint8_t {
  kClean = 0,
  kFindings = 1,
  kUsage = 2,
  kFault = 3,  // the harness itself is at fault: reference and arbiter disagree, the disk is full, ...
  kUnavailable = 4,  // a target does not load
  kInterrupted = 5,  // ended by a signal; what was done is saved
  kSuspect = 6,      // findings, all of them suspect: they break what is assumed of a target alone
  kThin = 7,         // no finding, and too few cases were judged to call that clean (ThinOf)
};

constexpr std::string_view Name(ExitStatus status) {
  constexpr std::string_view kNames[] = {"clean",       "findings",    "usage",   "fault",
                                         "unavailable", "interrupted", "suspect", "thin"};
  return kNames[static_cast<int>(status)];
}

// The exit status of the process. kThin shares that of kSuspect: nothing is wrong, and someone is to
// look.
constexpr int ProcessStatus(ExitStatus status) {
  return static_cast<int>(status == ExitStatus::kThin ? ExitStatus::kSuspect : status);
}

// kThin if none was judged, or fewer than half of the `cases` that were drawn; else kClean.
constexpr ExitStatus ThinOf(int64_t judged, int64_t cases) {
  return judged <= 0 || judged < cases - judged ? ExitStatus::kThin : ExitStatus::kClean;
}

// The exit status of a run in which several things happened. A fault goes first: it puts every finding
// in doubt. Then comes an interrupt: the run has not ended. Then what was found, wrong before suspect.
// What only was not looked at, an unavailable target or a file that cannot be read, never hides that.
constexpr ExitStatus Gravest(std::initializer_list<ExitStatus> happened) {
  for (const ExitStatus status :
       {ExitStatus::kFault, ExitStatus::kInterrupted, ExitStatus::kFindings, ExitStatus::kSuspect,
        ExitStatus::kUnavailable, ExitStatus::kUsage, ExitStatus::kThin}) {
    if (std::find(happened.begin(), happened.end(), status) != happened.end()) return status;
  }
  return ExitStatus::kClean;
}

}  // namespace plumbline::fuzz

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
};

constexpr std::string_view Name(ExitStatus status) {
  constexpr std::string_view kNames[] = {"clean", "findings",    "usage",
                                         "fault", "unavailable", "interrupted"};
  return kNames[static_cast<int>(status)];
}

// The exit status of a run in which several things happened: a fault goes before an unavailable target,
// that before an interrupt, that before misuse, and that before findings.
constexpr ExitStatus Gravest(std::initializer_list<ExitStatus> happened) {
  for (const ExitStatus status :
       {ExitStatus::kFault, ExitStatus::kUnavailable, ExitStatus::kInterrupted, ExitStatus::kUsage,
        ExitStatus::kFindings}) {
    if (std::find(happened.begin(), happened.end(), status) != happened.end()) return status;
  }
  return ExitStatus::kClean;
}

}  // namespace plumbline::fuzz

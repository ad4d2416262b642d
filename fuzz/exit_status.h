// SPDX-License-Identifier: Apache-2.0
//
// What the program ends with: the process's exit status and the word in its last line.

#ifndef PLUMBLINE_FUZZ_EXIT_STATUS_H_
#define PLUMBLINE_FUZZ_EXIT_STATUS_H_

#include <cstdint>
#include <string_view>

namespace plumbline::fuzz {

enum class ExitStatus : uint8_t {
  kClean = 0,
  kFindings = 1,
  kUsage = 2,
  kFault = 3,        // of the harness itself: reference and arbiter disagree, the disk is full, ...
  kUnavailable = 4,  // a target does not load
  kInterrupted = 5,  // by a signal; what was done is saved
};

constexpr std::string_view Name(ExitStatus status) {
  constexpr std::string_view kNames[] = {"clean", "findings",    "usage",
                                         "fault", "unavailable", "interrupted"};
  return kNames[static_cast<int>(status)];
}

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXIT_STATUS_H_

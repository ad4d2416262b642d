// SPDX-License-Identifier: Apache-2.0
//
// Asks the same question several times. This is for findings that a target shows only on some runs:
// races, memory that was never written, atomics whose order matters.

#ifndef PLUMBLINE_FUZZ_TRIAGE_REPEAT_H_
#define PLUMBLINE_FUZZ_TRIAGE_REPEAT_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace plumbline::fuzz {

// Five is a compromise. What fails 7 times in 10 has the majority of five 84 times in 100, what always
// fails has it always, and a case costs five runs.
inline constexpr int64_t kRepeats = 5;

struct Repeats {
  int64_t failed = 0, of = 0;
  bool Always() const { return of > 0 && failed == of; }
  bool Majority() const { return 2 * failed > of; }
  bool operator==(const Repeats&) const = default;
};

// Asks `times` times, fewer if `limit` is over before; at least once.
Repeats Repeat(int64_t times, std::chrono::milliseconds limit, const std::function<bool()>& fails);

// True if more than half of `times` runs fail. Stops as soon as that is decided.
bool MajorityFails(int64_t times, const std::function<bool()>& fails);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_REPEAT_H_

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/repeat.h"

namespace plumbline::fuzz {

Repeats Repeat(int64_t times, std::chrono::milliseconds limit, const std::function<bool()>& fails) {
  const auto end = std::chrono::steady_clock::now() + limit;
  Repeats repeats;
  do {
    repeats.failed += fails() ? 1 : 0;
    ++repeats.of;
  } while (repeats.of < times && std::chrono::steady_clock::now() < end);
  return repeats;
}

bool MajorityFails(int64_t times, const std::function<bool()>& fails) {
  int64_t yes = 0, no = 0;
  while (2 * yes <= times && 2 * no < times) ++(fails() ? yes : no);
  return 2 * yes > times;
}

}  // namespace plumbline::fuzz

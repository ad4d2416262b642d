// SPDX-License-Identifier: Apache-2.0
//
// Two-byte patterns that memory is filled with before a run and looked for after it. Inline: a case has
// thousands of short runs.

#ifndef PLUMBLINE_FUZZ_EXAMINE_PATTERN_H_
#define PLUMBLINE_FUZZ_EXAMINE_PATTERN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plumbline::fuzz {

using Pattern = uint16_t;

// Fills [begin, end) with the pattern, from its first byte on.
inline void Fill(std::byte* begin, std::byte* end, Pattern pattern) {
  const auto length = static_cast<size_t>(end - begin);
  // Lines between padding are short and many: a loop that is vectorised, without calls.
  constexpr size_t kShort = 512;
  if (length <= kShort) {
    for (size_t done = 0; done + 2 <= length; done += 2) std::memcpy(begin + done, &pattern, 2);
    if (length % 2 != 0) begin[length - 1] = std::byte(pattern & 0xff);
    return;
  }
  const std::byte bytes[2] = {std::byte(pattern & 0xff), std::byte(pattern >> 8)};
  std::memcpy(begin, bytes, std::min<size_t>(length, 2));
  for (size_t done = 2; done < length; done *= 2) {
    std::memcpy(begin + done, begin, std::min(done, length - done));
  }
}

// True if [begin, end) holds the pattern from its first byte on.
inline bool Holds(const std::byte* begin, const std::byte* end, Pattern pattern) {
  const auto length = static_cast<size_t>(end - begin);
  const std::byte bytes[2] = {std::byte(pattern & 0xff), std::byte(pattern >> 8)};
  if (length <= 2) return std::memcmp(begin, bytes, length) == 0;
  return std::memcmp(begin, bytes, 2) == 0 && std::memcmp(begin, begin + 2, length - 2) == 0;
}

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXAMINE_PATTERN_H_

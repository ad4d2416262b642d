// SPDX-License-Identifier: Apache-2.0
//
// Two-byte patterns: memory is filled with them before a run, and checked for them after it. The
// functions are inline, since a case has thousands of short runs of bytes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plumbline::fuzz {

// A pattern is two bytes that repeat, low byte first, from an even address.
using Pattern = uint16_t;

// Fills [begin, end) with the pattern, from its first byte on.
inline void Fill(std::byte* begin, std::byte* end, Pattern pattern) {
  const auto length = static_cast<size_t>(end - begin);
  // Lines between padding are short and many: up to this length a vectorised loop without calls is
  // used.
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

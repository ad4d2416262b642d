// SPDX-License-Identifier: Apache-2.0
//
// The place of one tensor in a Placement: its elements, its guard bands and its padding.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/examine/pattern.h"

namespace plumbline::fuzz {

// The pattern around inputs and outputs. It is a quiet NaN in bf16, fp16 and fp32, shares no byte with
// another pattern or a poison, and is not the -1 that first_invalid_row holds.
inline constexpr Pattern kGuard = 0xffc1;

inline constexpr size_t kAlignment = 64;
// A band holds at least this many bytes; if rows are longer, a whole row up to a page. A kernel that
// runs one row too far thus hits the band, not another tensor.
inline constexpr size_t kMinBand = 256;
inline constexpr size_t kMaxBand = 4096;

constexpr size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// One tensor in the arena: `lines` runs of `line_bytes` bytes, `pitch` apart, between two bands.
// Offsets count from the start of the arena. Elements are 2, 4 or 8 bytes and every offset is even, so
// patterns keep their phase everywhere.
struct Region {
  std::string_view name;
  size_t begin = 0, end = 0;  // with its bands
  size_t data = 0;            // first element
  size_t lines = 0, line_bytes = 0, pitch = 0;
  Pattern guard = kGuard;

  size_t Extent() const { return lines == 0 ? 0 : (lines - 1) * pitch + line_bytes; }

  bool Sparse() const { return pitch > line_bytes + 2 * kMaxBand; }

  // Calls f(from, to) for every stretch that belongs to no element, without the middle of long ones.
  template <class F>
  void ForEachGap(F f) const {
    size_t from = begin;
    for (size_t i = 0; i < lines; ++i) {
      const size_t line = data + i * pitch;
      if (i > 0 && Sparse()) {
        f(from, from + kMaxBand);
        from = line - kMaxBand;
      }
      if (from < line) f(from, line);
      from = line + line_bytes;
    }
    f(from, end);
  }

  // Calls f(from, to) for every stretch of elements and the gaps between them, without the long gaps.
  template <class F>
  void ForEachKept(F f) const {
    size_t from = begin;
    for (size_t i = 1; Sparse() && i < lines; ++i) {
      const size_t line = data + i * pitch;
      f(from, line - pitch + line_bytes + kMaxBand);
      from = line - kMaxBand;
    }
    f(from, end);
  }
};

// Describes a changed byte, `at` bytes from the start of the arena: "weight: byte +64 (line 3) holds
// 0x00, was 0x7f".
std::string DescribeByte(const Region& region, size_t at, std::byte was, std::byte is);

}  // namespace plumbline::fuzz

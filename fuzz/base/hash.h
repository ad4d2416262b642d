// SPDX-License-Identifier: Apache-2.0
//
// FNV-1a (Fowler, Noll, Vo), 64 bits, for names and checks that are stored: the same on every machine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plumbline::fuzz {

class Fnv1a {
 public:
  Fnv1a() = default;
  // Goes on where another hash ended.
  explicit Fnv1a(uint64_t state) : state_(state) {}
  explicit Fnv1a(std::span<const std::byte> bytes) { Add(bytes); }

  void Add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) state_ = (state_ ^ static_cast<uint64_t>(b)) * 0x100000001b3u;
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }

  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace plumbline::fuzz

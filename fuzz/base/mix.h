// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit hash of two integers, for small choices (which row, which element). SplitMix64's finaliser
// (Steele, Lea, Flood 2014). Expansion of recipes uses fuzz/base/philox.h instead.

#pragma once

#include <cstdint>
#include <string_view>

namespace plumbline::fuzz {

constexpr uint64_t Mix(uint64_t seed, uint64_t index) {
  uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A hash of a text, going on from `state`.
constexpr uint64_t Mix(uint64_t state, std::string_view text) {
  for (const char c : text) state = Mix(state, static_cast<unsigned char>(c));
  return state;
}

}  // namespace plumbline::fuzz

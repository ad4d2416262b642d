// SPDX-License-Identifier: Apache-2.0
//
// What is assumed of a target whose contract leaves keys out. The declared contract, with every absent
// key at its default, is what a target can be *wrong* by. Its defaults of the scale and of the sums
// over the vocabulary are wider than any kernel that is written today, and hide real defects: three
// roundings of each logit cover x_y - lse under any offset. So a target is judged by narrower values
// first. What breaks these alone is *suspect*: improbable, not proven to be wrong
// (fuzz/target/CONTRACTS.md).

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

struct Assumptions {
  // No logit is rounded where T is a power of two, 1 among them. Assumed if the contract has none of
  // scale, scale_roundings and scale_exact_powers.
  bool exact_scale = false;
  // Sums over the vocabulary go in tiles of 16 columns with depth 15, one tile after another, and a
  // term is rescaled at most min(V - 1, max(255, ceil(V / 16))) times. Assumed if the contract has none
  // of tile, tile_depth, splits and rescales.
  bool tiles = false;

  bool any() const { return exact_scale || tiles; }
  bool operator==(const Assumptions&) const = default;
};

inline constexpr int64_t kAssumedTile = 16, kAssumedDepth = 15, kAssumedColumnRescales = 255;

// The contract narrowed by what is assumed: no bound of it is wider.
oracle::Contract Assume(oracle::Contract declared, const Assumptions& assumed);

// One way of reading a suspect output: something that an honest kernel may do, which its contract does
// not say.
struct Reading {
  std::string_view what;     // "logprob is formed as x_y - lse"
  std::string_view opt_out;  // the key that says so: "\"plain_logprob\": true"
  // Sets that key, or drops the assumption that it contradicts. Returns false if it was declared
  // already, or was never assumed.
  bool (*apply)(oracle::Contract* declared, Assumptions* assumed);
  bool (*concerns)(oracle::Output output);
};
std::span<const Reading> Readings();

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3" (SC 2011), and the few distributions that recipes are expanded with.
//
// Invariant: a draw is a pure function of (seed, purpose, row, column). It depends on no other draw, on
// no shape and on no standard distribution (whose streams differ between libraries), so an element
// keeps its value when the tensor around it grows or shrinks, and has the same bits on every machine.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace plumbline::fuzz {

using PhiloxBlock = std::array<uint32_t, 4>;

// Scalars rather than arrays, so that device code may name them.
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return counter;
}

// Writes the blocks Philox4x32(counter with its second word increased by i, key) for i < kPhiloxRun,
// one after another, vectorised. That word must be a multiple of kPhiloxRun.
inline constexpr size_t kPhiloxRun = 8;
void PhiloxRun(const PhiloxBlock& counter, const std::array<uint32_t, 2>& key, uint32_t* out);

// Random bits addressed by place. `purpose` keeps apart the tensors, and the decisions, that share one
// seed.
class Stream {
 public:
  constexpr Stream(uint64_t seed, uint32_t purpose)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, purpose_(purpose) {}

  // 128 bits. Rows and columns at or beyond 2^32 would repeat; recipes refuse such shapes.
  constexpr PhiloxBlock At(int64_t row, int64_t column = 0) const {
    return Philox4x32({static_cast<uint32_t>(row), static_cast<uint32_t>(column), purpose_, 0}, key_);
  }
  // At(row, first + i) for i < kPhiloxRun; first is a multiple of kPhiloxRun.
  void RunAt(int64_t row, int64_t first, uint32_t* out) const {
    PhiloxRun({static_cast<uint32_t>(row), static_cast<uint32_t>(first), purpose_, 0}, key_, out);
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t purpose_;
};

// An integer in [0, bound), bound from 1 to 2^32: the high word of bits * bound. Its bias is below
// bound * 2^-32.
constexpr int64_t Below(uint32_t bits, int64_t bound) {
  return static_cast<int64_t>((uint64_t{bits} * static_cast<uint64_t>(bound)) >> 32);
}

// A multiple of 2^-24 in [0, 1), exact in float.
constexpr double Unit(uint32_t bits) { return static_cast<double>(bits >> 8) * 0x1p-24; }

// Bell-shaped, mean 0, variance 1, |x| < 3: the centred sum of three uniforms of 21 bits, doubled. A
// multiple of 2^-21, exact in float.
constexpr double Bell(uint64_t bits) {
  constexpr uint64_t kMask = (uint64_t{1} << 21) - 1;
  const uint64_t sum = (bits & kMask) + ((bits >> 21) & kMask) + ((bits >> 42) & kMask);
  return static_cast<double>(2 * static_cast<int64_t>(sum) - 3 * static_cast<int64_t>(kMask)) * 0x1p-21;
}

// The bits of one row of a stream, column by column: 32 bits a column (Word) or 64 (Pair). A purpose
// uses only one of the two, since both are cut from the same blocks. The last run of blocks is kept, so
// walking along a row is cheap, and jumping to and fro is not.
class RowBits {
 public:
  RowBits(const Stream& stream, int64_t row) : stream_(stream), row_(row) {}

  uint32_t Word(int64_t column) {
    Reach(static_cast<uint64_t>(column) / (4 * kPhiloxRun));
    return run_[static_cast<size_t>(column) % (4 * kPhiloxRun)];
  }
  uint64_t Pair(int64_t column) {
    Reach(static_cast<uint64_t>(column) / (2 * kPhiloxRun));
    const size_t first = static_cast<size_t>(column) % (2 * kPhiloxRun) * 2;
    return uint64_t{run_[first + 1]} << 32 | run_[first];
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  void Reach(uint64_t index) {
    if (index == index_) return;
    index_ = index;
    stream_.RunAt(row_, static_cast<int64_t>(index * kPhiloxRun), run_.data());
  }

  Stream stream_;
  int64_t row_;
  uint64_t index_ = kNone;                    // the run that is kept
  std::array<uint32_t, 4 * kPhiloxRun> run_;  // not initialised: most rows are short
};

}  // namespace plumbline::fuzz

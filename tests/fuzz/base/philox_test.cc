// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/philox.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plumbline::fuzz {
namespace {

// The three philox4x32-10 vectors that the authors publish (Random123, tests/kat_vectors: zeros, ones,
// and digits of pi). Fails for a wrong constant, round count, word order or key schedule.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Checks every instruction set that this machine has. Fails if a lane carries into its neighbour, if
// the vector form has another key schedule, or if blocks come in another order.
TEST(PhiloxTest, ARunIsItsBlocksOneByOne) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const uint32_t first : {0u, 8u, 0x7ffffff8u, 0xfffffff8u}) {
      for (const uint32_t row : {0u, 1u, 0xffffffffu}) {
        const PhiloxBlock counter = {row, first, 0xcafe, 0xffffffff};
        const std::array<uint32_t, 2> key = {0xdeadbeef, 0xffffffff};
        std::array<uint32_t, 4 * kPhiloxRun> run{};
        PhiloxRun(counter, key, run.data());
        for (uint32_t i = 0; i < kPhiloxRun; ++i) {
          EXPECT_EQ((PhiloxBlock{run[4 * i], run[4 * i + 1], run[4 * i + 2], run[4 * i + 3]}),
                    Philox4x32({row, first + i, 0xcafe, 0xffffffff}, key))
              << hwy::TargetName(target);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Fails if two of seed (either half), purpose, row and column share a counter or key word, or one is
// dropped: then two of these blocks are equal.
TEST(PhiloxTest, EveryCoordinateMatters) {
  const std::set<PhiloxBlock> blocks = {
      Stream(1, 1).At(0, 0),      Stream(2, 1).At(0, 0), Stream(1 + (uint64_t{1} << 32), 1).At(0, 0),
      Stream(1, 2).At(0, 0),      Stream(1, 1).At(1, 0), Stream(1, 1).At(0, 1),
      Stream(1, 1).At(1, 1),      Stream(1, 2).At(1, 0), Stream(1, 2).At(0, 1),
      Stream(1, 1).At(1 << 16, 0)};
  EXPECT_EQ(blocks.size(), 10u);
}

// Fails if a cursor keeps a stale block, or cuts words twice or in another order than documented.
TEST(PhiloxTest, RowBitsAreTheStreamsBlocks) {
  const Stream stream(0x123456789abcdef0u, 7);
  RowBits words(stream, 5), pairs(stream, 5), jumping(stream, 5);
  for (int64_t column = 0; column < 32; ++column) {
    EXPECT_EQ(words.Word(column), stream.At(5, column / 4)[static_cast<size_t>(column % 4)]);
    const PhiloxBlock block = stream.At(5, column / 2);
    const uint64_t expected =
        column % 2 == 0 ? uint64_t{block[1]} << 32 | block[0] : uint64_t{block[3]} << 32 | block[2];
    EXPECT_EQ(pairs.Pair(column), expected);
    jumping.Word(31 - column);
    EXPECT_EQ(jumping.Word(column), stream.At(5, column / 4)[static_cast<size_t>(column % 4)]);
  }
}

// Fails for a range that is off by one at either end, or signed.
TEST(PhiloxTest, BelowReachesBothEndsOnly) {
  for (const int64_t bound : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{17}, int64_t{1} << 32}) {
    EXPECT_EQ(Below(0, bound), 0);
    EXPECT_EQ(Below(0xffffffff, bound), bound - 1);
  }
  EXPECT_EQ(Unit(0), 0);
  EXPECT_EQ(Unit(0xffffffff), 1 - 0x1p-24);
}

// The bell has mean 0, variance 1 and fourth moment 2.6 (3 - 1.2/3, that of a sum of three uniforms),
// to within six standard deviations of a sample of 2^16, and values are exact in float. Fails for a
// wrong centre or scale, for overlapping fields (the variance grows), and for a distribution of another
// shape.
TEST(PhiloxTest, BellIsCentredScaledAndExactInFloat) {
  constexpr int kCount = 1 << 16;
  double sum = 0, squares = 0, fourths = 0, largest = 0;
  RowBits bits(Stream(3, 1), 0);
  for (int64_t k = 0; k < kCount; ++k) {
    const double x = Bell(bits.Pair(k));
    EXPECT_EQ(x, static_cast<double>(static_cast<float>(x)));
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    largest = std::max(largest, std::fabs(x));
  }
  // Standard deviations of the sample moments are sqrt(Var(x^k) / n): Var(x^2) = 2.6 - 1, and
  // Var(x^4) < E x^8 < 105, a Gaussian's.
  EXPECT_NEAR(sum / kCount, 0, 6.0 / 256);
  EXPECT_NEAR(squares / kCount, 1, 6.0 * 1.27 / 256);
  EXPECT_NEAR(fourths / kCount, 2.6, 6.0 * 10.3 / 256);
  EXPECT_LT(largest, 3);
  EXPECT_EQ(Bell(0), -Bell(~uint64_t{0}));
}

}  // namespace
}  // namespace plumbline::fuzz

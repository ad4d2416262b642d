// SPDX-License-Identifier: Apache-2.0
//
// The next chunk's d_logits, made by the idle warps of the gradients' products
// (kernel/cuda/hopper/kept_warp.cuh). Logits, and exponents and their tiles' offsets, are integers, so
// that every d_logit is a power of two times a number of the row, and is known without the kernel's
// arithmetic.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernel/dtype.h"
#include "tests/kernel/cuda/support/kept_runner.h"
#include "tests/kernel/cuda/support/product_runner.h"

namespace plumbline::kernel::cuda {
namespace {

class GpuHopperKept : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = WhyNoDevice();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

uint16_t Bits(bool half, float x) {
  return half ? std::bit_cast<uint16_t>(ToFloat16(x)) : std::bit_cast<uint16_t>(ToBFloat16(x));
}

std::string Describe(const KeptCase& c) {
  return std::string(c.half ? "fp16" : "bf16") + (c.exponents ? " exponents" : "") + " hidden " +
         std::to_string(c.hidden) + " weight " + std::to_string(c.weight) + " rows " +
         std::to_string(c.rows) + " live " + std::to_string(c.live) + " columns " +
         std::to_string(c.columns) + " from " + std::to_string(c.first_column) + " hidden size " +
         std::to_string(c.hidden_size);
}

// Draws lists in any order, rows without logits, and labels in the chunk and elsewhere. Elements that
// must not have an effect are 5, more than any logit or offset.
KeptCase Make(std::mt19937* random, int64_t rows, int64_t live, int64_t columns, int64_t hidden_size) {
  const auto draw = [random](uint32_t n) { return static_cast<int32_t>((*random)() % n); };
  KeptCase c;
  c.exponents = draw(2) == 0;
  c.half = !c.exponents && draw(2) == 0;
  const int32_t which = draw(3);
  c.hidden = which != 1;
  c.weight = which != 2;
  c.rows = rows;
  c.live = live;
  c.columns = columns;
  c.hidden_size = hidden_size;
  c.depth = 192;
  c.first_column = 384 * draw(3) + (c.exponents ? 64 * draw(3) : 0);
  c.kept_ld = (columns + 31) / 32 * 32 + 32 * draw(2);
  c.ld = (columns + 7) / 8 * 8 + 8 * draw(3);
  c.kept.assign(static_cast<size_t>(rows * c.kept_ld), 5.0f);
  // Some tiles before the chunk's are kept too.
  const int64_t tile = c.first_column / KeptCase::kTileColumns;
  const int64_t end = (c.first_column + columns - 1) / KeptCase::kTileColumns + 1;
  c.first_tile = std::max<int64_t>(tile - draw(3), 0);
  c.offsets_ld = end - c.first_tile + draw(2);
  c.offsets.assign(static_cast<size_t>(rows * c.offsets_ld), 5.0f);
  c.slot.resize(static_cast<size_t>(rows));
  std::iota(c.slot.begin(), c.slot.end(), 0);
  c.source = c.slot;
  std::shuffle(c.slot.begin(), c.slot.end(), *random);
  std::shuffle(c.source.begin(), c.source.end(), *random);
  for (int32_t& slot : c.slot) {
    if (draw(10) == 0) {
      slot = -1 - draw(2);
      continue;
    }
    for (int64_t j = 0; j < columns; ++j)
      c.kept[static_cast<size_t>(slot * c.kept_ld + j)] = static_cast<float>(-draw(12));
    for (int64_t j = tile; j < end; ++j)
      c.offsets[static_cast<size_t>(slot * c.offsets_ld + j - c.first_tile)] =
          static_cast<float>(-draw(12));
  }
  for (int64_t r = 0; r < live; ++r) {
    const int32_t label = draw(3) == 0 ? -1 : draw(static_cast<uint32_t>(columns + 1500));
    c.list.push_back(
        {static_cast<float>(draw(2) == 0 ? 3 : -5), static_cast<float>(7 + draw(9)), label});
  }
  return c;
}

void Expect(const KeptCase& c) {
  const KeptOutcome outcome = RunKept(c);
  ASSERT_EQ(outcome.error, "") << Describe(c);
  EXPECT_EQ(outcome.wrong_sums, 0) << Describe(c);
  const int64_t written = (c.live + 63) / 64 * 64, wide = (c.columns + 7) / 8 * 8;
  const auto rows = static_cast<int64_t>(outcome.d_logits.size()) / c.ld;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < c.ld; ++j) {
      float want = 0;
      if (r < c.live && j < c.columns) {
        const KeptTestRow& row = c.list[static_cast<size_t>(r)];
        const int32_t place = c.slot[static_cast<size_t>(c.source[static_cast<size_t>(r)])];
        float z = place < 0 ? 0 : c.kept[static_cast<size_t>(place * c.kept_ld + j)];
        if (c.exponents && place >= 0) {
          const int64_t tile = (c.first_column + j) / KeptCase::kTileColumns - c.first_tile;
          z += c.offsets[static_cast<size_t>(place * c.offsets_ld + tile)];
        }
        want = row.label >= 0 && row.label == c.first_column + j ? row.label_gradient
                                                                 : row.weight * std::exp2(z);
      }
      const uint16_t bits = r < written && j < wide ? Bits(c.half, want) : KeptOutcome::kMark;
      ASSERT_EQ(outcome.d_logits[static_cast<size_t>(r * c.ld + j)], bits)
          << Describe(c) << ": [" << r << ", " << j << "], " << want;
    }
  }
}

// Sizes around a piece of the ring, the ring, and a thread's columns. Fails if a slot is read before
// its copy has arrived or filled before it is read, if a tail or a part is left out, or if the ring
// overlaps memory of the products.
TEST_F(GpuHopperKept, EveryElementIsMade) {
  std::mt19937 random(11);
  for (const int64_t columns :
       {1, 7, 8, 9, 255, 256, 257, 511, 512, 767, 768, 769, 1023, 1024, 1031, 1535, 1536, 1545, 3000}) {
    for (const int64_t rows : {1, 63, 65, 200}) {
      for (const int64_t live : {int64_t{0}, rows / 2, rows})
        Expect(Make(&random, rows, live, columns, rows == 65 ? 300 : 64));
    }
  }
}

// More rows than warps and many tiles, for either grad_hidden, so that products and d_logits run
// together for longer. Fails if either disturbs the other.
TEST_F(GpuHopperKept, BesideLongProducts) {
  std::mt19937 random(12);
  for (int i = 0; i < 6; ++i) {
    KeptCase c = Make(&random, 3000, 2900 + i, 5000 + 37 * i, i < 3 ? 1152 : 1024);
    c.half = !c.exponents && i % 2 == 1;
    c.hidden = i % 3 != 1;
    c.weight = i % 3 != 2;
    c.depth = 1536;
    Expect(c);
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/dtype.h"

namespace plumbline::kernel::host {
namespace {

// The branch-free widening against kernel/dtype.h on all patterns. Fails if a subnormal, an infinity or
// a sign is wrong. A NaN must only stay a NaN.
TEST(ConvertTest, WidensAllPatterns) {
  std::vector<uint16_t> patterns(65536);
  for (uint32_t i = 0; i < 65536; ++i) patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> out(65536);
  const int64_t row = 0;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    WidenRows({patterns.data(), dtype, {65536, 1}}, &row, 1, 65536, out.data());
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float expected = dtype == DType::kBf16 ? ToFloat(BFloat16{bits}) : ToFloat(Float16{bits});
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected)) << i;
      }
    }
  }
}

// Narrowing on output against kernel/dtype.h over a sample of all floats. Fails if a value is rounded
// otherwise, or if a NaN is not the one NaN pattern.
TEST(ConvertTest, NarrowsLikeDType) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65521) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  std::vector<uint16_t> out(values.size());
  const int64_t count = static_cast<int64_t>(values.size());
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    StoreBlock({out.data(), dtype, 2, {1, count}, {count, 1}}, 0, 1, 0, count, values.data(), count);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t narrow =
          dtype == DType::kBf16 ? ToBFloat16(values[i]).bits : ToFloat16(values[i]).bits;
      const uint16_t expected =
          std::isnan(values[i]) ? (dtype == DType::kBf16 ? 0x7fc0 : 0x7e00) : narrow;
      ASSERT_EQ(out[i], expected) << values[i];
    }
  }
  float stored = 0;
  StoreElement({&stored, DType::kF32, 0, {1, 1}, {1, 1}}, 0, -std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(std::bit_cast<uint32_t>(stored), 0x7fc0'0000u);
}

// Packs panels from either orientation, with a row list, a ragged width and depth, and padded strides.
// Fails if an element lands elsewhere or padding columns are not +0.
TEST(ConvertTest, PacksPanels) {
  constexpr int64_t kDepth = 37, kColumns = 41, kLeading = 50;
  std::vector<float> store(kLeading * kLeading);
  for (size_t i = 0; i < store.size(); ++i) store[i] = static_cast<float>(i);
  const std::vector<int64_t> rows = {9, 3, 3, 40, 7, 0, 1};
  for (const bool along_depth : {false, true}) {
    const Matrix direct = {store.data(), DType::kF32, {kLeading, 1}};
    const Matrix source = along_depth ? direct.Transposed() : direct;
    for (const bool listed : {false, true}) {
      const int64_t depth = listed ? 5 : kDepth, begin = 2, column = 4;
      std::vector<float> out(3 * kDepth * 16, -1);
      PackPanels(source, listed ? rows.data() : nullptr, begin, depth, column, kColumns, out.data());
      for (int64_t j = 0; j < 48; ++j) {
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t row = listed ? rows[static_cast<size_t>(begin + k)] : begin + k;
          const int64_t at = along_depth ? row + (column + j) * kLeading : row * kLeading + column + j;
          const float expected = j < kColumns ? store[static_cast<size_t>(at)] : 0;
          ASSERT_EQ(out[static_cast<size_t>((j / 16 * depth + k) * 16 + j % 16)], expected)
              << along_depth << listed << " column " << j << " depth " << k;
        }
      }
    }
  }
}

// Stores blocks in either orientation of the output, ragged past kTile and kRowBlock. Fails if an
// element lands elsewhere or anything else is written.
TEST(ConvertTest, StoresBlocksInEitherOrientation) {
  constexpr int64_t kRows = 131, kColumns = 85, kStride = 90, kOutRows = 140, kOutColumns = 100;
  std::vector<float> values(kRows * kStride);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  for (const bool hidden_major : {false, true}) {
    const int64_t step_row = hidden_major ? 1 : kOutColumns, step_column = hidden_major ? kOutRows : 1;
    std::vector<float> out(kOutRows * kOutColumns, 0);
    StoreBlock({out.data(), DType::kF32, 2, {kOutRows, kOutColumns}, {step_row, step_column}}, 3, kRows,
               7, kColumns, values.data(), kStride);
    for (int64_t i = 0; i < kOutRows; ++i) {
      for (int64_t j = 0; j < kOutColumns; ++j) {
        const bool inside = i >= 3 && i < 3 + kRows && j >= 7 && j < 7 + kColumns;
        const float expected = inside ? values[static_cast<size_t>((i - 3) * kStride + j - 7)] : 0;
        ASSERT_EQ(out[static_cast<size_t>(i * step_row + j * step_column)], expected) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel::host

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/output_bits.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// A [rows, columns] tensor whose element (i, j) holds 1000 * i + j + 1, all else ones.
struct Written {
  Written(DType dtype, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
      : memory(static_cast<size_t>((rows * row_stride + columns * column_stride + 1)) *
                   kernel::SizeOf(dtype),
               std::byte{0xff}),
        tensor{memory.data(), dtype, 2, {rows, columns}, {row_stride, column_stride}} {
    const size_t width = kernel::SizeOf(dtype);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto bits = static_cast<uint64_t>(1000 * i + j + 1);
        std::memcpy(memory.data() + static_cast<size_t>(i * row_stride + j * column_stride) * width,
                    &bits, width);
      }
    }
  }
  std::vector<std::byte> memory;
  kernel::Tensor tensor;
};

// Fails if strides or widths are mixed up, or a block of a transposed copy is left out: 33 and 65 are
// one beyond the blocks' edges.
TEST(ElementBits, ReadsThroughStrides) {
  for (const DType dtype : {DType::kBf16, DType::kF32, DType::kI64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {33, 65}, {65, 33}}) {
      for (const auto& [row_stride, column_stride] :
           {std::pair<int64_t, int64_t>{columns, 1}, {columns + 3, 1}, {1, rows}, {1, rows + 2}}) {
        const Written written(dtype, rows, columns, row_stride, column_stride);
        const ElementBits bits(written.tensor);
        ASSERT_EQ(bits.size(), static_cast<size_t>(rows * columns));
        EXPECT_EQ(bits.width(), kernel::SizeOf(dtype));
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(
                bits[static_cast<size_t>(i * columns + j)],
                static_cast<uint64_t>(1000 * i + j + 1) & (dtype == DType::kBf16 ? 0xffffu : ~0u));
          }
        }
      }
    }
  }
}

TEST(ElementBits, OfNothingIsEmpty) {
  const kernel::Tensor none{nullptr, DType::kF32, 2, {0, 7}, {7, 1}};
  EXPECT_TRUE(ElementBits(none).empty());
  EXPECT_EQ(ElementBits(none).size(), 0u);
  EXPECT_TRUE(ElementBits().empty());
}

// Fails if equality compares only a part of an output, or none.
TEST(OutputBits, DifferWhereOneElementDiffers) {
  std::vector<float> lse(9, 1.0F);
  std::vector<float> entropy = lse;
  kernel::Results results;
  results.lse = kernel::Tensor{lse.data(), DType::kF32, 1, {9, 1}, {1, 1}};
  results.entropy = kernel::Tensor{entropy.data(), DType::kF32, 1, {9, 1}, {1, 1}};
  const OutputBits before = CopyBits(results);
  EXPECT_TRUE(before.outputs[0].empty());
  EXPECT_EQ(before.outputs[3].size(), 9u);
  EXPECT_EQ(CopyBits(results), before);
  lse.back() = -1.0F;
  const OutputBits after = CopyBits(results);
  EXPECT_NE(after, before);
  EXPECT_EQ(after.outputs[2], before.outputs[2]);
  EXPECT_EQ(after.outputs[3][8], 0xbf800000u);
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "oracle/numeric/pack.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "oracle/budget/inputs.h"
#include "oracle/numeric/buffer.h"
#include "oracle/numeric/gemm.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

bool SameBits(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

constexpr double kLeast = 0x1p-20;
double Raised(double x) { return x != 0 && std::fabs(x) < kLeast ? kLeast : std::fabs(x); }

// ReadElement decodes by the definition, one element at a time; the packed forms are vectorised. Fails
// for a transposed tile, a wrong remainder row or column, padding that is not 0, a subnormal or an
// infinity that is widened wrongly, and a zero that is raised.
TEST(PackPanel, HoldsWhatReadElementReads) {
  std::mt19937 rng(1);
  std::vector<uint32_t> bits(200 * 200);
  for (uint32_t& b : bits) b = static_cast<uint32_t>(rng());
  for (DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    for (int layout = 0; layout < 3; ++layout) {
      kernel::ConstTensor t = {bits.data(), dtype, 2, {150, 60}, {61, 1}};
      if (layout == 1) t.stride[0] = 1, t.stride[1] = 151;
      if (layout == 2) t.stride[0] = 3, t.stride[1] = 0;  // a broadcast column
      for (int64_t columns : {1, 7, 8, 13, 24}) {
        for (int64_t depth : {1, 5, 8, 64, 67, 128}) {
          const Buffer value(depth * kPanel), magnitude(depth * kPanel);
          PackPanel(Matrix::Of(t), 11, depth, 9, columns, kLeast, value.data(), magnitude.data());
          for (int64_t k = 0; k < depth; ++k) {
            for (int64_t j = 0; j < kPanel; ++j) {
              const double want = j < columns ? ReadElement(t, 11 + k, 9 + j) : 0;
              const double got = value.data()[k * kPanel + j];
              ASSERT_TRUE(SameBits(got, want)) << kernel::Name(dtype) << " " << k << " " << j;
              ASSERT_TRUE(SameBits(magnitude.data()[k * kPanel + j], Raised(want)));
            }
          }
        }
      }
      std::vector<double> row(37), magnitude(37);
      LoadRow(Matrix::Of(t), 5, 37, kLeast, row.data(), magnitude.data());
      for (int64_t j = 0; j < 37; ++j) {
        ASSERT_TRUE(SameBits(row[static_cast<size_t>(j)], ReadElement(t, 5, j)));
        ASSERT_TRUE(SameBits(magnitude[static_cast<size_t>(j)], Raised(ReadElement(t, 5, j))));
      }
    }
  }
}

// Fails for an exponent off by one, which would certify dot products that are not exact, if a zero or
// an infinity counts as a bit, and if an infinity is a maximum.
TEST(LowestBit, OfKnownNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(LowestBit(1), 1);
  EXPECT_EQ(LowestBit(-6), 2);
  EXPECT_EQ(LowestBit(0.75), 0.25);
  EXPECT_EQ(LowestBit(0x1.8p-140), 0x1p-141);
  EXPECT_EQ(LowestBit(0x1.000002p0), 0x1p-23);
  EXPECT_EQ(LowestBit(0x1p-149), 0x1p-149);
  EXPECT_EQ(LowestBit(0), kInfinity);
  EXPECT_EQ(LowestBit(-kInfinity), kInfinity);
  std::vector<double> panel(2 * kPanel, 0), least(kPanel, 8), largest(kPanel, 1);
  panel[3] = 12, panel[kPanel + 3] = -5, panel[kPanel + 4] = 48;
  UpdateLowestBits(panel.data(), 2, least.data());
  EXPECT_EQ(least[3], 1);
  EXPECT_EQ(least[4], 8);
  EXPECT_EQ(least[5], 8);
  panel[6] = panel[kPanel + 4] = kInfinity, panel[4] = 48;
  UpdateMaxima(panel.data(), 2, largest.data());
  EXPECT_EQ(largest[3], 12);
  EXPECT_EQ(largest[4], 48);
  EXPECT_EQ(largest[6], 1);
  EXPECT_EQ(largest[5], 1);
}

// Small integers make every order of summation exact. Fails if a row or column is left out, if strides
// are confused, or if a sum starts from what c held.
TEST(Gemm, IntegersInEveryShape) {
  std::mt19937 rng(2);
  const auto draw = [&] { return static_cast<double>(static_cast<int>(rng() % 17) - 8); };
  for (int64_t rows : {1, 2, 3, 4, 5, 8, 11, 17}) {
    for (int64_t depth : {1, 3, 40}) {
      for (bool transposed : {false, true}) {
        for (bool accumulate : {false, true}) {
          const int64_t panels = 2, stride = panels * kPanel + 3;
          std::vector<double> a(static_cast<size_t>(rows * depth)),
              c(static_cast<size_t>(rows * stride));
          for (double& x : a) x = draw();
          for (double& x : c) x = draw();
          const std::vector<double> before = c;
          const Buffer b(panels * depth * kPanel);
          for (int64_t i = 0; i < panels * depth * kPanel; ++i) b.data()[i] = draw();
          const int64_t a_row = transposed ? 1 : depth, a_depth = transposed ? rows : 1;
          Gemm({a.data(), a_row, a_depth, b.data(), rows, depth, panels, c.data(), stride, accumulate});
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t j = 0; j < stride; ++j) {
              const auto at = static_cast<size_t>(r * stride + j);
              double want = before[at];
              if (j < panels * kPanel) {
                if (!accumulate) want = 0;
                for (int64_t k = 0; k < depth; ++k) {
                  want += a[static_cast<size_t>(r * a_row + k * a_depth)] *
                          b.data()[(j / kPanel * depth + k) * kPanel + j % kPanel];
                }
              }
              ASSERT_EQ(c[at], want) << rows << " " << depth << " " << r << " " << j;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::oracle

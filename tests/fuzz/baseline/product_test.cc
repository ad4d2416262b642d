// SPDX-License-Identifier: Apache-2.0
//
// Dot products of baselines against definitions written down again, one product after another.

#include "fuzz/baseline/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernel/dtype.h"
#include "tests/kernel/support/tensor_core_definition.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kRows = 7;

class Products : public ::testing::TestWithParam<int64_t> {
 protected:
  Products() : depth_(GetParam()) {
    std::mt19937 random(static_cast<unsigned>(depth_) + 1);
    std::normal_distribution<float> normal;
    const auto bf16 = [&] { return kernel::ToFloat(kernel::ToBFloat16(normal(random))); };
    a_.resize(static_cast<size_t>(kRows * depth_));
    b_.resize(static_cast<size_t>(depth_ * kProductColumns));
    std::ranges::generate(a_, bf16);
    std::ranges::generate(b_, bf16);
  }
  std::vector<float> Run(const Dot& dot) const {
    std::vector<float> c(static_cast<size_t>(kRows * kProductColumns), 99.0F);
    Multiply(dot, {a_.data(), depth_, b_.data(), depth_, kRows, c.data(), kProductColumns, false});
    return c;
  }
  float A(int64_t r, int64_t k) const { return a_[static_cast<size_t>(r * depth_ + k)]; }
  float B(int64_t k, int64_t j) const { return b_[static_cast<size_t>(k * kProductColumns + j)]; }

  int64_t depth_;
  std::vector<float> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(Depths, Products, ::testing::Values(0, 1, 4, 15, 16, 37, 300, 1000),
                         [](const auto& depth) { return std::to_string(depth.param); });

// Truncates toward zero to a multiple of 2^exponent.
double Truncated(double x, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(x, -exponent)), exponent);
}

float TruncatedToFloat(double x) {
  if (x == 0) return 0;
  return static_cast<float>(Truncated(x, std::ilogb(x) - 23));
}

// Fails if a block has another size, if terms are aligned to another exponent or rounded, if the sum is
// rounded to nearest, or if a last block that is not full counts what lies behind it.
TEST_P(Products, AlignedIsItsDefinition) {
  for (const Dot& dot :
       {Dot{Dot::Kind::kAligned, 1, 2}, Dot{Dot::Kind::kAligned, 4, 0}, Dot{Dot::Kind::kAligned, 8, 1},
        Dot{Dot::Kind::kAligned, 16, 2}, Dot{Dot::Kind::kAligned, 32, 1}}) {
    const std::vector<float> c = Run(dot);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t j = 0; j < kProductColumns; ++j) {
        float sum = 0;
        for (int64_t first = 0; first < depth_; first += dot.block) {
          const int64_t last = std::min<int64_t>(depth_, first + dot.block);
          int exponent = sum == 0 ? -100 : std::ilogb(sum);
          for (int64_t k = first; k < last; ++k) {
            exponent = std::max(exponent, std::ilogb(A(r, k)) + std::ilogb(B(k, j)));
          }
          const int unit = exponent - 23 - dot.extra_bits;
          double all = Truncated(static_cast<double>(sum), unit);
          for (int64_t k = first; k < last; ++k) {
            all += Truncated(static_cast<double>(A(r, k)) * static_cast<double>(B(k, j)), unit);
          }
          sum = TruncatedToFloat(all);
        }
        ASSERT_EQ(c[static_cast<size_t>(r * kProductColumns + j)], sum)
            << "block " << dot.block << " row " << r << " column " << j;
      }
    }
  }
}

// Fails if Hopper's model is not the one that was measured on a device.
TEST_P(Products, HopperIsAsMeasured) {
  const std::vector<float> c = Run({Dot::Kind::kAligned, 16, 2});
  std::vector<float> column(static_cast<size_t>(depth_));
  for (int64_t j = 0; j < kProductColumns; ++j) {
    for (int64_t k = 0; k < depth_; ++k) column[static_cast<size_t>(k)] = B(k, j);
    for (int64_t r = 0; r < kRows; ++r) {
      const uint32_t want = kernel::TensorCoreByDefinition(kernel::DType::kBf16, a_.data() + r * depth_,
                                                           column.data(), depth_);
      EXPECT_EQ(std::bit_cast<uint32_t>(c[static_cast<size_t>(r * kProductColumns + j)]), want);
    }
  }
}

// Fails if a chain is not one: another order errs less.
TEST_P(Products, ChainIsOne) {
  const std::vector<float> c = Run({Dot::Kind::kChain, 1, 0});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kProductColumns; ++j) {
      float sum = 0;  // products of bf16 are exact, so it does not matter whether they are fused
      for (int64_t k = 0; k < depth_; ++k) sum += A(r, k) * B(k, j);
      EXPECT_EQ(c[static_cast<size_t>(r * kProductColumns + j)], sum);
    }
  }
}

// Fails if a chain toward zero is rounded to nearest, or if a small term of the other sign costs
// nothing.
TEST_P(Products, ChainTowardZeroIsOne) {
  const std::vector<float> c = Run({Dot::Kind::kTowardZero, 1, 0});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kProductColumns; ++j) {
      float sum = 0;  // exact in double: a product has 16 bits, and none is below 2^-28 of a sum
      for (int64_t k = 0; k < depth_; ++k) {
        sum = TruncatedToFloat(static_cast<double>(sum) +
                               static_cast<double>(A(r, k)) * static_cast<double>(B(k, j)));
      }
      EXPECT_EQ(c[static_cast<size_t>(r * kProductColumns + j)], sum);
    }
  }
  const float a[] = {1, -0x1p-40F};
  float panel[2 * kProductColumns], sums[kProductColumns];
  std::fill(std::begin(panel), std::end(panel), 1.0F);
  Multiply({Dot::Kind::kTowardZero, 1, 0}, {a, 2, panel, 2, 1, sums, kProductColumns, false});
  EXPECT_EQ(sums[0], 1 - 0x1p-24F);
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The model of kernel/host/tensor_core.h against a second one, written from the definition in integers,
// and against measurements on an H200.

#include "kernel/host/tensor_core.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fuzz/gpu/probe/operands.h"
#include "tests/kernel/support/instruction_sets.h"
#include "tests/kernel/support/tensor_core_definition.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::host {
namespace {

using fuzz::DataKind, fuzz::DrawOperands, fuzz::kDataKinds, fuzz::NameOf, fuzz::OperandRandom;

using TensorCoreTest = OnEveryTarget;
class SlowTensorCoreTest : public TensorCoreTest {};

// Computes dot products of one depth for `rows` rows and kPanel columns. Each column is drawn anew, so
// that lanes that need different treatment meet. Returns how many disagree with the definition.
int Disagreements(DType dtype, int64_t rows, int64_t depth, OperandRandom* random) {
  const auto size = static_cast<size_t>(rows * depth);
  std::vector<float> a(size), b(static_cast<size_t>(depth * kPanel) + kPanel);
  auto* const panel =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(b.data()) + 63) & ~uintptr_t{63});
  std::vector<float> c(static_cast<size_t>(rows * kPanel));
  // Each call draws one kind of data. Column j is drawn as a pair with rows j, j + kPanel and so on,
  // and so independently of the other rows.
  const auto kind = static_cast<DataKind>(random->Next() % kDataKinds);
  std::vector<float> left(static_cast<size_t>(depth)), right(static_cast<size_t>(depth));
  for (int64_t j = 0; j < kPanel; ++j) {
    DrawOperands(dtype, kind, depth, random, left.data(), right.data());
    for (int64_t k = 0; k < depth; ++k) panel[k * kPanel + j] = right[static_cast<size_t>(k)];
    for (int64_t r = j; r < rows; r += kPanel) {
      std::copy(left.begin(), left.end(), a.begin() + r * depth);
    }
  }
  for (int pass = 0; pass < TensorCorePasses(dtype); ++pass) {
    TensorCoreProducts({a.data(), depth, panel, depth, rows, 1, c.data(), kPanel, pass > 0}, dtype,
                       pass);
  }
  int disagreements = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < kPanel; ++j) {
      for (int64_t k = 0; k < depth; ++k) right[static_cast<size_t>(k)] = panel[k * kPanel + j];
      const uint32_t want = TensorCoreByDefinition(dtype, a.data() + r * depth, right.data(), depth);
      const auto got = std::bit_cast<uint32_t>(c[static_cast<size_t>(r * kPanel + j)]);
      if (want == got) continue;
      if (++disagreements == 1) {
        ADD_FAILURE() << "dtype " << static_cast<int>(dtype) << " kind " << NameOf(kind) << " depth "
                      << depth << " row " << r << " column " << j << std::hex << ": got " << got
                      << ", by definition " << want;
      }
    }
  }
  return disagreements;
}

void Compare(uint64_t seed, int rounds) {
  OperandRandom random(seed);
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (int round = 0; round < rounds; ++round) {
      for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
        for (const int64_t depth : {1, 15, 16, 17, 48}) {
          // Some shapes have more than a work item has.
          const auto few = static_cast<int64_t>(1 + random.Next() % 20);
          const int64_t rows = few == 20 ? 100 : few;
          ASSERT_EQ(Disagreements(dtype, rows, depth, &random), 0) << hwy::TargetName(target);
        }
      }
    }
  }
}

// Fails with any other rule: another alignment or block, rounding in place of truncation, a subnormal
// or a special value treated separately, a sum that overflows its 32 bits, or planes of another split
// or order.
TEST_F(TensorCoreTest, AgreesWithTheDefinition) { Compare(1, 12); }
TEST_F(SlowTensorCoreTest, AgreesWithTheDefinitionOnAMillion) { Compare(2, 200); }

// One dot product of bf16 operands, placed in the first column of the first row.
float Dot(const std::vector<float>& a, const std::vector<float>& b) {
  const auto depth = static_cast<int64_t>(a.size());
  alignas(64) float panel[512 * kPanel] = {};
  for (size_t k = 0; k < b.size(); ++k) panel[k * kPanel] = b[k];
  float c[kPanel];
  TensorCoreProducts({a.data(), depth, panel, depth, 1, 1, c, kPanel, false}, DType::kBf16, 0);
  return c[0];
}
std::vector<float> Ones(size_t count) { return std::vector<float>(count, 1.0f); }

// Results of an H200 (cuBLAS, bf16 to fp32), as five facts about its sums. Each checks one rule of the
// model alone. A change of the rule that both models shared would show here. Fails if another number of
// alignment bits is kept.
TEST(TensorCoreMeasuredTest, TwoBitsBelowFp32AreKept) {
  for (int j = 0; j <= 3; ++j) {
    std::vector<float> terms = {1};
    terms.resize(1 + (size_t{1} << j), std::ldexp(1.0f, -23 - j));
    EXPECT_EQ(Dot(Ones(terms.size()), terms), j <= 2 ? 1 + 0x1p-23f : 1) << j;
  }
}

// Fails if sums are rounded, in either sign.
TEST(TensorCoreMeasuredTest, SumsAreTruncated) {
  EXPECT_EQ(Dot({1, 1}, {1, 0x1.8p-24f}), 1);
  EXPECT_EQ(Dot({-1, -1}, {1, 0x1.8p-24f}), -1);
}

// Fails if a block has another size, or is added before it meets the accumulator.
TEST(TensorCoreMeasuredTest, SixteenProductsAndTheAccumulatorAreOneBlock) {
  for (size_t at = 2; at < 48; ++at) {
    std::vector<float> terms(48, 0.0f);
    terms[0] = 0x1p30f;
    terms[1] = -0x1p30f;
    terms[at] = 1;
    EXPECT_EQ(Dot(Ones(48), terms), at < 16 ? 0 : 1) << at;
  }
  std::vector<float> terms(32, 0.0f);
  terms[0] = 1;
  terms[20] = 0x1p30f;
  terms[21] = -0x1p30f;
  EXPECT_EQ(Dot(Ones(32), terms), 0);
}

// A negative sum below 2^-149 is +0. This is one of 577 such dot products whose sign of zero was all
// that an earlier form of this model, which kept the sign, got wrong. Fails if the sign is kept.
TEST(TensorCoreMeasuredTest, WhatTruncatesToZeroIsPlusZero) {
  const uint16_t a[] = {0x9f5c, 0x0000, 0x9ec8, 0x9d17, 0x9fc8, 0x9a0d, 0x8000, 0x9d5c,
                        0x9f80, 0x9ee7, 0x9cf6, 0x9e3c, 0x0000, 0x9997, 0x0000, 0x9f6e};
  const uint16_t b[] = {0x0000, 0x156c, 0x0000, 0x0000, 0x1353, 0x8000, 0x1511, 0x1600,
                        0x8000, 0x8000, 0x8000, 0x0000, 0x15d6, 0x8000, 0x147f, 0x0000};
  std::vector<float> left, right;
  for (const uint16_t bits : a) left.push_back(ToFloat(BFloat16{bits}));
  for (const uint16_t bits : b) right.push_back(ToFloat(BFloat16{bits}));
  EXPECT_EQ(std::bit_cast<uint32_t>(Dot(left, right)), 0U);
}

// Fails if subnormal operands or results are flushed.
TEST(TensorCoreMeasuredTest, SubnormalsAreHonoured) {
  EXPECT_EQ(Dot({0x1p-130f}, {0x1p100f}), 0x1p-30f);
  EXPECT_EQ(Dot({0x1p-70f}, {0x1p-70f}), 0x1p-140f);
}

// Fails if a partial sum within a block overflows, or if the sum of a block does not.
TEST(TensorCoreMeasuredTest, OnlyTheSumOfABlockOverflows) {
  const float x = 0x1.8p127f;
  EXPECT_EQ(Dot(Ones(3), {x, x, -x}), x);
  std::vector<float> terms(17, 0.0f);
  terms[0] = terms[1] = x;
  terms[16] = -x;
  EXPECT_EQ(Dot(Ones(17), terms), std::numeric_limits<float>::infinity());
}

// Fails if terms below the accumulator's alignment unit add up to anything.
TEST(TensorCoreMeasuredTest, TermsBelowTheUnitAreSwallowed) {
  for (const size_t depth : {16, 32, 64, 128, 256}) {
    std::vector<float> terms(depth, 0x1.fep-26f);
    terms[0] = 1;
    for (size_t k = 15; k < depth; k += 16) terms[k] = 0x1.fep-24f;
    EXPECT_EQ(Dot(Ones(depth), terms), 1) << depth;
  }
}

}  // namespace
}  // namespace plumbline::kernel::host

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/order.h"
#include "fuzz/problem/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "fuzz/triage/shrink/passes.h"
#include "fuzz/triage/shrink/session.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

// The order as it is meant to be, written out. Fails if a kind of value changes places with another.
TEST(FloatRank, SimplestFirst) {
  const float order[] = {0,
                         1,
                         -1,
                         2,
                         -2,
                         4,
                         3,
                         1024,
                         1023,
                         0x1p60f,
                         1.0f / 3,
                         0x1p-140f,
                         std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  for (size_t i = 1; i < std::size(order); ++i) {
    EXPECT_LT(FloatRank(order[i - 1]), FloatRank(order[i])) << order[i - 1] << " before " << order[i];
  }
  EXPECT_LT(FloatRank(0.0f), FloatRank(-0.0f));
  EXPECT_LT(FloatRank(4), FloatRank(0.25f));
  EXPECT_EQ(FloatRank(0), 0u);
}

// Fails if zeros at either end are counted, or if a subnormal gets the hidden bit.
TEST(SignificantBits, CountsFromTheFirstToTheLastOne) {
  EXPECT_EQ(SignificantBits(0), 0);
  EXPECT_EQ(SignificantBits(-8), 1);
  EXPECT_EQ(SignificantBits(10), 3);
  EXPECT_EQ(SignificantBits(1 + 0x1p-23f), 24);
  EXPECT_EQ(SignificantBits(0x1p-149f), 1);
  EXPECT_EQ(SignificantBits(0x1.8p-147f), 2);
}

// Fails on a double rounding, at the edge of a binade, or if a subnormal is taken for normal.
TEST(RoundToBits, NearestAndTowardZero) {
  EXPECT_EQ(RoundToBits(11, 3, false), 12);
  EXPECT_EQ(RoundToBits(11, 3, true), 10);
  EXPECT_EQ(RoundToBits(-15, 3, false), -16);
  EXPECT_EQ(RoundToBits(-15, 3, true), -14);
  EXPECT_EQ(RoundToBits(5, 2, false), 4);  // a tie goes to even
  EXPECT_EQ(RoundToBits(0x1.8p-147f, 1, false), 0x1p-146f);
  EXPECT_EQ(RoundToBits(0x1.fffffep127f, 1, true), 0x1p127f);
  EXPECT_TRUE(std::isinf(RoundToBits(0x1.fffffep127f, 1, false)));
  EXPECT_TRUE(std::isnan(RoundToBits(std::numeric_limits<float>::quiet_NaN(), 1, false)));
}

// Fails if a distant label is taken for simpler than a near one, or if the arithmetic overflows.
TEST(LabelRank, ZeroThenIgnoredThenUpwardThenNegative) {
  EXPECT_EQ(LabelRank(0, -100), 0u);
  EXPECT_LT(LabelRank(0, -100), LabelRank(-100, -100));
  EXPECT_LT(LabelRank(-100, -100), LabelRank(1, -100));
  EXPECT_LT(LabelRank(1, -100), LabelRank(2, -100));
  EXPECT_LT(LabelRank(1'000'000, -100), LabelRank(-1, -100));
  EXPECT_EQ(LabelRank(0, 0), 1u);  // an ignored label 0 is not the plain label 0
  // At the ends of the range nothing overflows.
  EXPECT_LE(LabelRank(INT64_MAX, -100), LabelRank(INT64_MIN, -100));
}

// Each option away from its default costs, and nothing else does. Fails if values enter the score, or
// if an option does not.
TEST(OptionsScore, CountsDepartures) {
  OwnedProblem p = Busy(3, 4, 5);
  const int64_t busy = OptionsScore(p);
  p.hidden.SetFloat(0, 1e9f);
  EXPECT_EQ(OptionsScore(p), busy);
  p.layout.hidden_padding = 0;
  EXPECT_LT(OptionsScore(p), busy);
  p = Busy(3, 4, 5);
  p.grad_entropy.reset();
  EXPECT_LT(OptionsScore(p), busy);
}

// Fails if options cost nothing, or more than all values.
TEST(Cost, OptionsHaveAPriceInValues) {
  OwnedProblem p = Busy(3, 4, 5), fewer = p;
  fewer.layout.label_offset = 0;
  EXPECT_EQ(Cost(p) - Cost(fewer), kValuesPerOption);
  EXPECT_EQ(Cost(Busy(3, 9, 5)) - Cost(p), 25);
}

// Fails if a field is left out of the hash: two problems that differ there would count as one, and the
// second would never be judged.
TEST(Fingerprint, SeesEveryField) {
  const OwnedProblem p = Busy(3, 4, 5);
  const uint64_t fingerprint = Fingerprint(p);
  EXPECT_EQ(Fingerprint(OwnedProblem(p)), fingerprint);
  const auto changes = [&](auto change) {
    OwnedProblem q = p;
    change(q);
    return Fingerprint(q) != fingerprint;
  };
  for (HostTensor OwnedProblem::*tensor :
       {&OwnedProblem::hidden, &OwnedProblem::weight, &OwnedProblem::labels}) {
    EXPECT_TRUE(changes([&](OwnedProblem& q) { (q.*tensor).bytes.front() ^= std::byte{1}; }));
    EXPECT_TRUE(changes([&](OwnedProblem& q) { (q.*tensor).bytes.back() ^= std::byte{1}; }));
  }
  for (auto tensor :
       {&OwnedProblem::temperature, &OwnedProblem::grad_logprob, &OwnedProblem::grad_entropy}) {
    EXPECT_TRUE(changes([&](OwnedProblem& q) { (q.*tensor).reset(); }));
    EXPECT_TRUE(changes([&](OwnedProblem& q) { (q.*tensor)->bytes.back() ^= std::byte{1}; }));
    EXPECT_TRUE(changes([&](OwnedProblem& q) { (q.*tensor)->shape = {1, 3}; }));
  }
  for (int64_t Layout::*field : {&Layout::hidden_padding, &Layout::weight_padding,
                                 &Layout::label_offset, &Layout::grad_stride}) {
    EXPECT_TRUE(changes([&](OwnedProblem& q) { ++(q.layout.*field); }));
  }
  for (bool Wanted::*field : {&Wanted::entropy, &Wanted::lse, &Wanted::grad_hidden,
                              &Wanted::grad_weight, &Wanted::fp32_grads}) {
    EXPECT_TRUE(changes([&](OwnedProblem& q) { q.wanted.*field = !(q.wanted.*field); }));
  }
  EXPECT_TRUE(changes([](OwnedProblem& q) { q.layout.weight_hidden_major = false; }));
  EXPECT_TRUE(changes([](OwnedProblem& q) { ++q.ignore_index; }));
  EXPECT_TRUE(changes([](OwnedProblem& q) { q.reduction = kernel::Reduction::kSum; }));
  EXPECT_TRUE(changes([](OwnedProblem& q) { q.hidden.dtype = kernel::DType::kF16; }));
}

}  // namespace
}  // namespace plumbline::fuzz

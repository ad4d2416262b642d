// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/natural_log.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plumbline::kernel::host {
namespace {

// The declared error is 1.1 * 2^-24. It is checked on a sample of all positive floats and on every one
// of the 100 000 next to 1, where a relative error is hard to keep. Fails with a series cut too early,
// or with ln 2 in single precision.
TEST(NaturalLogTest, KeepsItsDeclaredError) {
  const auto check = [](uint32_t bits) {
    const float s = std::bit_cast<float>(bits);
    const long double exact = std::log(static_cast<long double>(s));
    const long double error = std::fabs(static_cast<long double>(NaturalLog(s)) - exact);
    ASSERT_LE(error, 1.1L * 0x1p-24L * std::fabs(exact)) << s;
  };
  for (uint32_t bits = 1; bits < 0x7f80'0000; bits += 7919) check(bits);
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  for (uint32_t i = 1; i < 100'000; ++i) {
    check(one + i);
    check(one - i);
  }
}

// logprob <= 0 and entropy >= 0 depend on this. Fails if ln 1 is not +0, or if a result just above 1 is
// negative.
TEST(NaturalLogTest, IsNotNegativeFromOneOn) {
  EXPECT_EQ(std::bit_cast<uint32_t>(NaturalLog(1)), 0u);
  float before = 0;
  for (uint32_t bits = std::bit_cast<uint32_t>(1.0f); bits < 0x7f80'0000; bits += 4099) {
    const float value = NaturalLog(std::bit_cast<float>(bits));
    ASSERT_GE(value, before) << "not monotone at " << std::bit_cast<float>(bits);
    before = value;
  }
}

// Fails if NaN or infinity give numbers.
TEST(NaturalLogTest, SpecialValues) {
  EXPECT_TRUE(std::isnan(NaturalLog(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(NaturalLog(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace plumbline::kernel::host

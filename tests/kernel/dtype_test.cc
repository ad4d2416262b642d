// SPDX-License-Identifier: Apache-2.0

#include "kernel/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plumbline::kernel {
namespace {

// Decodes both 16-bit formats by their definition: sign, exponent field and fraction, with ldexp.
struct Format {
  int fraction_bits;
  int exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Format kBf16Format{7, 8};
constexpr Format kF16Format{10, 5};

double Decode(Format format, uint32_t bits) {
  const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const uint32_t exponent = (bits >> format.fraction_bits) & ((1u << format.exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1u << format.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double significand = exponent == 0 ? fraction : fraction + (1u << format.fraction_bits);
  const int scale =
      static_cast<int>(exponent == 0 ? 1 : exponent) - format.bias() - format.fraction_bits;
  return sign * std::ldexp(significand, scale);
}

float Widen(Format format, uint32_t bits) {
  const auto pattern = static_cast<uint16_t>(bits);
  return format.exponent_bits == 8 ? ToFloat(BFloat16{pattern}) : ToFloat(Float16{pattern});
}
uint16_t Narrow(Format format, float value) {
  return format.exponent_bits == 8 ? ToBFloat16(value).bits : ToFloat16(value).bits;
}

class DTypeTest : public testing::TestWithParam<Format> {};

// Fails if any of the 65 536 patterns widens to another value, or loses its sign or its NaN payload.
TEST_P(DTypeTest, EveryPatternWidensExactly) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = Decode(GetParam(), bits);
    const float got = Widen(GetParam(), bits);
    ASSERT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      const uint32_t shift = static_cast<uint32_t>(23 - GetParam().fraction_bits);
      const uint32_t payload = (bits & ((1u << GetParam().fraction_bits) - 1)) << shift;
      ASSERT_EQ(std::bit_cast<uint32_t>(got) & 0x007f'ffff, payload | 0x0040'0000) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << bits;
    }
  }
}

// Fails if a value that the format has does not come back as itself.
TEST_P(DTypeTest, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = Widen(GetParam(), bits);
    const uint32_t quiet = std::isnan(value) ? 1u << (GetParam().fraction_bits - 1) : 0;
    ASSERT_EQ(Narrow(GetParam(), value), bits | quiet) << bits;
  }
}

// Between each two neighbours the midpoint goes to the even one, and the floats next to it to the
// nearer one. Fails with truncation, ties away from zero, a lost carry, or a wrong subnormal or
// overflow boundary.
TEST_P(DTypeTest, NarrowingRoundsToNearestEven) {
  const uint32_t infinity = ((1u << GetParam().exponent_bits) - 1) << GetParam().fraction_bits;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = Decode(GetParam(), bits);
    // The next value up if the exponent range went on. The tie with it decides overflow.
    const double high =
        bits + 1 < infinity ? Decode(GetParam(), bits + 1) : std::ldexp(1.0, GetParam().bias() + 1);
    const double middle = (low + high) / 2;
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    const float tie = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(tie), middle);
    const float above = std::nextafter(tie, std::numeric_limits<float>::infinity());
    const float below = std::nextafter(tie, 0.0f);
    ASSERT_EQ(Narrow(GetParam(), tie), even) << bits;
    ASSERT_EQ(Narrow(GetParam(), above), bits + 1) << bits;
    ASSERT_EQ(Narrow(GetParam(), below), bits) << bits;
    ASSERT_EQ(Narrow(GetParam(), -tie), even | 0x8000) << bits;
    ASSERT_EQ(Narrow(GetParam(), -above), (bits + 1) | 0x8000) << bits;
    ASSERT_EQ(Narrow(GetParam(), -below), bits | 0x8000) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DTypeTest, testing::Values(kBf16Format, kF16Format),
                         [](const testing::TestParamInfo<Format>& format) {
                           return format.param.exponent_bits == 8 ? "bf16" : "fp16";
                         });

// Fails if a name is changed or missing: recipes and cases on disk hold them.
TEST(DTypeNameTest, NamesStay) {
  EXPECT_EQ(Name(DType::kBf16), "bf16");
  EXPECT_EQ(Name(DType::kF16), "fp16");
  EXPECT_EQ(Name(DType::kF32), "fp32");
  EXPECT_EQ(Name(DType::kI32), "int32");
  EXPECT_EQ(Name(DType::kI64), "int64");
}

}  // namespace
}  // namespace plumbline::kernel

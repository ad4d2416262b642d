// SPDX-License-Identifier: Apache-2.0
#include "fuzz/problem/narrow.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

void ExpectLikeOneByOne(const std::vector<float>& values) {
  std::vector<std::byte> to(values.size() * 2);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Narrow(values, dtype, to.data());
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, to.data() + 2 * i, 2);
      const uint16_t expected = dtype == DType::kBf16 ? kernel::ToBFloat16(values[i]).bits
                                                      : kernel::ToFloat16(values[i]).bits;
      ASSERT_EQ(bits, expected) << values[i] << " to " << kernel::Name(dtype);
    }
  }
}

// Fails for a tie that is not rounded to even, a boundary between normal and subnormal or to infinity
// that is off by one, or a lost sign. Covers all numbers that fp16 has, the midpoints between
// neighbours, and the floats beside both.
TEST(Narrow, IsWhatOneByOneGivesAroundEveryHalf) {
  std::vector<float> values;
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float low = kernel::ToFloat(kernel::Float16{static_cast<uint16_t>(half)});
    const float high = half + 1 < 0x7c00
                           ? kernel::ToFloat(kernel::Float16{static_cast<uint16_t>(half + 1)})
                           : 65536.0F;
    for (const float at : {low, low + (high - low) / 2}) {
      const uint32_t bits = std::bit_cast<uint32_t>(at);
      for (const uint32_t beside : {bits - 1, bits, bits + 1}) {
        if ((beside & 0x7fff'ffff) >= 0x7f80'0000) continue;
        values.push_back(std::bit_cast<float>(beside));
        values.push_back(-std::bit_cast<float>(beside));
      }
    }
  }
  ExpectLikeOneByOne(values);
}

TEST(Narrow, IsWhatOneByOneGivesOnRandomBits) {
  std::vector<float> values;
  for (uint64_t i = 0; i < 300'000; ++i) {
    const auto bits = static_cast<uint32_t>(Mix(7, i));
    if ((bits & 0x7fff'ffff) < 0x7f80'0000) values.push_back(std::bit_cast<float>(bits));
  }
  ExpectLikeOneByOne(values);
}

// Fails if a value that is not finite goes through the loops for finite ones.
TEST(Narrow, HandsOverWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ExpectLikeOneByOne({1, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p-149F,
                      -0.0F, std::numeric_limits<float>::max(), std::bit_cast<float>(0xff80'0001u)});
}

// Fails for a subnormal number, an infinity or a NaN that is widened like the others.
TEST(Widen, IsWhatOneByOneGivesForEveryHalf) {
  std::vector<std::byte> from(2 * 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::memcpy(from.data() + 2 * bits, &half, 2);
  }
  std::vector<float> to(65536);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Widen(from.data(), dtype, to);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const float expected = dtype == DType::kBf16 ? kernel::ToFloat(kernel::BFloat16{half})
                                                   : kernel::ToFloat(kernel::Float16{half});
      ASSERT_EQ(std::bit_cast<uint32_t>(to[bits]), std::bit_cast<uint32_t>(expected)) << bits;
    }
  }
}

TEST(Narrow, KeepsFloatsAsTheyAre) {
  const std::vector<float> values = {1.5F, -0.0F, 0x1p-149F};
  std::vector<float> to(3);
  Narrow(values, DType::kF32, reinterpret_cast<std::byte*>(to.data()));
  EXPECT_EQ(std::memcmp(to.data(), values.data(), 12), 0);
  Narrow({}, DType::kF32, nullptr);
}

}  // namespace
}  // namespace plumbline::fuzz

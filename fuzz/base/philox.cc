// SPDX-License-Identifier: Apache-2.0
//
// Eight blocks of a Philox stream at once. An element of a problem costs half a block. If blocks are
// made one after another, the multiplications of ten rounds wait for each other; expansion spent half
// its time on that.

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fuzz/base/philox.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "fuzz/base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::fuzz {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void RunOfBlocks(PhiloxBlock counter, const std::array<uint32_t, 2>& key, uint32_t* out) {
  for (size_t i = 0; i < kPhiloxRun; ++i, ++counter[1]) {
    const PhiloxBlock block = Philox4x32(counter, key);
    std::copy(block.begin(), block.end(), out + 4 * i);
  }
}
#else
// Holds every word of a block in the low half of a 64-bit lane, one lane a block. MulEven gives the
// full product of the low halves.
void RunOfBlocks(PhiloxBlock counter, const std::array<uint32_t, 2>& key, uint32_t* out) {
  const hn::CappedTag<uint64_t, kPhiloxRun> lanes;
  const hn::Repartition<uint32_t, decltype(lanes)> words;
  const auto low = hn::Set(lanes, 0xffffffffu);
  const auto multiplier0 = hn::Set(words, kPhiloxMultiplier0);
  const auto multiplier1 = hn::Set(words, kPhiloxMultiplier1);
  HWY_ALIGN uint64_t block[4][kPhiloxRun];
  for (size_t first = 0; first < kPhiloxRun; first += hn::Lanes(lanes)) {
    auto c0 = hn::Set(lanes, counter[0]), c2 = hn::Set(lanes, counter[2]),
         c3 = hn::Set(lanes, counter[3]);
    // A run begins at a multiple of its length, so no lane carries into the other half.
    auto c1 = hn::Iota(lanes, counter[1] + first);
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto product0 = hn::MulEven(hn::BitCast(words, c0), multiplier0);
      const auto product1 = hn::MulEven(hn::BitCast(words, c2), multiplier1);
      const auto c0_next = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(lanes, key0));
      const auto c2_next = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(lanes, key1));
      c1 = hn::And(product1, low);
      c3 = hn::And(product0, low);
      c0 = c0_next;
      c2 = c2_next;
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    hn::Store(c0, lanes, block[0] + first);
    hn::Store(c1, lanes, block[1] + first);
    hn::Store(c2, lanes, block[2] + first);
    hn::Store(c3, lanes, block[3] + first);
  }
  for (size_t i = 0; i < kPhiloxRun; ++i) {
    for (size_t word = 0; word < 4; ++word) out[4 * i + word] = static_cast<uint32_t>(block[word][i]);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::fuzz
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::fuzz {

HWY_EXPORT(RunOfBlocks);

void PhiloxRun(const PhiloxBlock& counter, const std::array<uint32_t, 2>& key, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(RunOfBlocks)(counter, key, out);
}

}  // namespace plumbline::fuzz
#endif  // HWY_ONCE

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/recipe.h"

#include <algorithm>
#include <span>

#include "fuzz/base/philox.h"
#include "fuzz/recipe/expand/device_values.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, kernel::Reduction;

constexpr int64_t kBatchSizes[] = {128,  129,  333,  512,   1000,  1024, 2048,
                                   4095, 4096, 8192, 12288, 16384, 32768};
constexpr int64_t kHidden[] = {1023, 1024, 1536, 2048, 2049, 2304, 3584, 4096, 4097, 5120, 7168, 8192};
constexpr int64_t kVocab[] = {32'000,  32'003,  50'257,  65'536,  100'352, 128'256, 129'280,
                              131'072, 151'936, 151'937, 152'064, 200'019, 256'000, 262'144};

// Draws one decision after another of a case. Its purpose is none that expansion draws from.
class Dice {
 public:
  Dice(uint64_t seed, int64_t index) : stream_(seed, 0x50524f44), index_(index) {}
  int64_t Below(int64_t bound) { return fuzz::Below(stream_.At(index_, place_++)[0], bound); }
  bool Percent(int64_t percent) { return Below(100) < percent; }
  template <class T, size_t kCount>
  T Of(const T (&choices)[kCount]) {
    return choices[Below(static_cast<int64_t>(kCount))];
  }

 private:
  Stream stream_;
  int64_t index_, place_ = 0;
};

// Draws a shape with more than 2^31 elements: of weight, or of logits.
enum class Beyond : uint8_t { kWeight, kLogits };

void DrawBeyond(Dice* dice, Beyond beyond, Recipe* r) {
  if (beyond == Beyond::kWeight) {
    constexpr int64_t kFew[] = {128, 129, 200}, kWide[] = {262'145, 262'152, 270'001};
    constexpr int64_t kDeep[] = {8192, 8193, 9216, 10'240};
    r->n = dice->Of(kFew);
    r->v = dice->Of(kWide);
    r->h = dice->Of(kDeep);
    // Six products of fp32 inputs for one: such a case would be the dearest of all.
    if (r->dtype == DType::kF32) r->dtype = DType::kBf16;
    return;
  }
  constexpr int64_t kMany[] = {16'385, 24'576, 32'768}, kWide[] = {131'073, 151'936, 262'145};
  constexpr int64_t kShallow[] = {64, 128};
  r->n = dice->Of(kMany);
  r->v = dice->Of(kWide);
  r->h = dice->Of(kShallow);
  if (r->dtype == DType::kF32) {
    r->n = kMany[0];
    r->h = kShallow[0];
  }
}

double Cost(const Recipe& r) {
  return static_cast<double>(r.n) * static_cast<double>(r.v) * static_cast<double>(r.h);
}

// Draws a shape that costs at most `most`, and at least a tenth of it if possible.
void DrawShape(Dice* dice, double most, Recipe* r) {
  r->n = kBatchSizes[0];
  r->h = kHidden[0];
  r->v = kVocab[0];
  Recipe tried = *r;
  for (int attempt = 0; attempt < 64; ++attempt) {
    tried.n = dice->Of(kBatchSizes);
    tried.h = dice->Of(kHidden);
    tried.v = dice->Of(kVocab);
    if (Cost(tried) > most) continue;
    *r = tried;
    if (Cost(tried) >= most / 10 || dice->Percent(15)) return;
  }
}

void DrawValues(Dice* dice, Recipe* r) {
  struct Kind {
    Values values;
    int least, most;  // exp
  };
  constexpr Kind kValueKinds[] = {{Values::kGaussian, -2, 3},  {Values::kGaussian, -2, 3},
                                  {Values::kSmallLse, 2, 7},   {Values::kSmallLse, 2, 7},
                                  {Values::kLattice, -2, 5},   {Values::kOffset, 6, 20},
                                  {Values::kConfident, 4, 50}, {Values::kTies, 0, 12},
                                  {Values::kMassive, -2, 3},   {Values::kAllNegative, 4, 13}};
  const Kind kind = dice->Of(kValueKinds);
  r->values = kind.values;
  r->exp = kind.least + static_cast<int>(dice->Below(kind.most - kind.least + 1));
}

}  // namespace

Recipe DrawProduction(uint64_t seed, int64_t index) {
  Dice dice(seed, index);
  Recipe r;
  r.regime = "production";
  r.seed = (seed ^ 0x9e3779b97f4a7c15u) + static_cast<uint64_t>(index);
  const int64_t of_dtype = dice.Below(10);
  r.dtype = of_dtype < 6 ? DType::kBf16 : of_dtype < 8 ? DType::kF16 : DType::kF32;
  if (index % 10 == 0) {
    r.dtype = index % 20 == 0 ? DType::kBf16 : DType::kF16;
    DrawShape(&dice, kLargestCost, &r);
    if (index == 0) {
      r.n = 8192;
      r.h = 4096;
      r.v = 151'936;
    }
  } else if (index % 20 == 7 || index % 20 == 13) {
    DrawBeyond(&dice, index % 20 == 7 ? Beyond::kWeight : Beyond::kLogits, &r);
  } else {
    DrawShape(&dice, r.dtype == DType::kF32 ? kProductionCostFp32 : kProductionCost, &r);
  }
  DrawValues(&dice, &r);

  constexpr Labels kUsual[] = {Labels::kRandom,     Labels::kRandom,     Labels::kRandom,
                               Labels::kFirst,      Labels::kLast,       Labels::kLastTile,
                               Labels::kTileEdge,   Labels::kSame,       Labels::kSomeIgnored,
                               Labels::kIgnoredNaN, Labels::kIgnoredNaN, Labels::kOneValid};
  r.labels = dice.Of(kUsual);
  // Expensive cases have a finite grad_weight.
  const bool dear = index % 10 == 0;
  if (dice.Percent(4) && !dear) r.labels = Labels::kInvalid;
  if (dice.Percent(2) && !dear) r.labels = Labels::kAllIgnored;
  if (r.values == Values::kConfident) r.labels = Labels::kArgmax;
  r.label_dtype = dice.Percent(50) ? DType::kI32 : DType::kI64;

  constexpr Grads kGrads[] = {Grads::kOnes, Grads::kRandom, Grads::kRandom,      Grads::kFirstZero,
                              Grads::kWide, Grads::kOneHot, Grads::kAlternating, Grads::kTiny};
  constexpr Grads kEntropyGrads[] = {Grads::kNone,   Grads::kNone,      Grads::kRandom,
                                     Grads::kRandom, Grads::kFirstZero, Grads::kWide};
  r.grads = dice.Of(kGrads);
  r.entropy_grads = dice.Of(kEntropyGrads);
  const int64_t reduction = dice.Below(10);
  r.reduction = reduction < 7 ? Reduction::kNone : reduction < 8 ? Reduction::kSum : Reduction::kMean;
  if (r.reduction != Reduction::kNone && r.grads == Grads::kOneHot) r.grads = Grads::kOnes;

  constexpr float kTemperatures[] = {1, 1, 1, 0.5F, 2, 0x1.99999ap-1F, 0x1.333334p+0F};
  r.temperature = dice.Of(kTemperatures);
  r.temperature_per_row = dice.Percent(25);
  r.hidden_major = dice.Percent(30);
  constexpr int64_t kPads[] = {0, 0, 0, 8, 3}, kOffsets[] = {0, 0, 0, 8, 1};
  r.pad = dice.Of(kPads);
  r.offset = dice.Of(kOffsets);
  constexpr int64_t kStrides[] = {1, 1, 2, 0};
  r.grad_stride = dice.Of(kStrides);
  r.fp32_grads = dice.Percent(30);
  // Labels that lead may need more columns than the shape has.
  if (!WhyNotOnDevice(r).empty()) r.labels = Labels::kRandom;
  return r;
}

}  // namespace plumbline::fuzz

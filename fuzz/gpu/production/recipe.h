// SPDX-License-Identifier: Apache-2.0
//
// Recipes of the sizes that production has: N 128 to 32768, H 1023 to 8192, V 32000 to 262144, odd ones
// among them, which the device expands (fuzz/gpu/production/device_case.h) and the oracle judges there.

#ifndef PLUMBLINE_FUZZ_GPU_PRODUCTION_RECIPE_H_
#define PLUMBLINE_FUZZ_GPU_PRODUCTION_RECIPE_H_

#include <cstdint>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// The most that a case may cost, in multiply-adds of one product: the oracle has six of them in FP64,
// at about 29e12 a second on an H200, and fp32 inputs cost a target six products for each of its own.
// One case in ten, the first among them, is 8192 x 4096 x 151936 or as large.
inline constexpr double kProductionCost = 1.2e12, kProductionCostFp32 = 4e11, kLargestCost = 5.2e12;

// The index-th of a campaign: a pure function of its arguments. WhyNotOnDevice is empty for all of
// them.
Recipe DrawProduction(uint64_t seed, int64_t index);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PRODUCTION_RECIPE_H_

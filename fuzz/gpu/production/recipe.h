// SPDX-License-Identifier: Apache-2.0
//
// Draws recipes of production size: N 128 to 32768, H 1023 to 8192, V 32000 to 262144, including odd
// sizes. One case in twenty has V * H beyond 2^31 (H up to 10240), one N * V beyond 2^31 (H 64 or
// 128). The device expands them (fuzz/gpu/production/device_case.h) and the oracle judges them there.

#pragma once

#include <cstdint>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// The largest cost of a case, in multiply-adds of one product. The oracle computes six of them in FP64,
// at about 29e12 a second on an H200, and fp32 inputs cost a target six products for each of its own.
// One case in ten, the first among them, is 8192 x 4096 x 151936 or as large.
inline constexpr double kProductionCost = 1.2e12, kProductionCostFp32 = 4e11, kLargestCost = 5.2e12;

// Draws the index-th recipe of a campaign: a pure function of its arguments. WhyNotOnDevice is empty
// for all of them.
Recipe DrawProduction(uint64_t seed, int64_t index);

}  // namespace plumbline::fuzz

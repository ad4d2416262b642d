// SPDX-License-Identifier: Apache-2.0
//
// Stretches of grad_hidden on tensor cores, by which its sum over the vocabulary is as exact as one of
// about a thirty-second of the columns: each stretch is summed from zero, and the sums are added in
// their order, in fp32, each rounded to nearest. They depend on the vocabulary alone, so a row has the
// same bits whatever rows are beside it. A stretch may be as short as one unit, so that a vocabulary of
// 385 columns has two: small cases then reach every way of adding stretches, and the bound of a small
// vocabulary is tighter. The keys of a contract that say so are grad_hidden_stretch and
// grad_hidden_stretches.

#pragma once

#include <algorithm>
#include <cstdint>

namespace plumbline::kernel {

inline constexpr int64_t kStretchUnit = 384;   // a multiple of every tile's columns
inline constexpr int64_t kMostStretches = 32;  // of a vocabulary

// Returns the columns of a stretch, a multiple of kStretchUnit; the last one may have fewer.
constexpr int64_t StretchOf(int64_t vocab) {
  const int64_t units = vocab / kStretchUnit + (vocab % kStretchUnit != 0 ? 1 : 0);
  const int64_t together = units / kMostStretches + (units % kMostStretches != 0 ? 1 : 0);
  return std::max<int64_t>(together, 1) * kStretchUnit;
}
static_assert(StretchOf(1) == 384 && StretchOf(12288) == 384 && StretchOf(12289) == 768 &&
              StretchOf(151936) == 4992);

}  // namespace plumbline::kernel

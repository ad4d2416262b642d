// SPDX-License-Identifier: Apache-2.0
//
// The online softmax of one row: the state (m, s, q) with
//   m = the largest logit so far, before the division by the temperature T
//   s = sum of exp(-t),  q = sum of t exp(-t),  t = (m - z) / T
//
// Columns come in tiles of kTile. A tile first moves the maximum, once, and is then summed by kLanes
// partial sums and a fixed tree, so that the depth of the sum is 7 within a tile and one more for each
// tile. Moving the maximum by d = (m' - m) / T, with f = exp(-d):
//   q <- f q + (f d) s,   s <- f s,   f d read as 0 where f = 0 (d may be infinite)
//
// The maximum keeps NaN. A row is empty if s = 0 at the end, and its results are then NaN. m = -inf is
// no test of that, as a state whose first tile has -inf logits alone has it too.

#pragma once

#include <limits>

namespace plumbline::kernel::host {

struct SoftmaxState {
  float m = -std::numeric_limits<float>::infinity();
  float s = 0;
  float q = 0;
};

}  // namespace plumbline::kernel::host

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/recipe/ordinary.h"

namespace plumbline::fuzz {

bool IsOrdinary(const Recipe& r) {
  const bool values =
      r.values == Values::kGaussian || r.values == Values::kConfident || r.values == Values::kMassive;
  const bool like_a_batch = r.rows != Rows::kBroadcast && r.label_stride != 0 && r.wide == Wide::kNone;
  return values && r.special == Special::kNone && like_a_batch && r.n >= 12 && r.h >= 32 && r.v >= 128;
}

}  // namespace plumbline::fuzz

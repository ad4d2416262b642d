// SPDX-License-Identifier: Apache-2.0
//
// Judges a row of finite elements at once, by the rules of oracle/verdict/verdict.h.

#pragma once

#include <cstdint>
#include <optional>

#include "oracle/verdict/element_row.h"

namespace plumbline::oracle {

struct TightestPass {
  double tightness = 0;
  int64_t column = 0;  // the first with that tightness
};

// got[count] holds the target's values. Returns nothing, and says nothing more, unless every element
// must be finite, has a bound that is a number, and passes.
std::optional<TightestPass> JudgeRowOfPasses(const ElementRow& row, const double* got);

}  // namespace plumbline::oracle

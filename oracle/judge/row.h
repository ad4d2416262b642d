// SPDX-License-Identifier: Apache-2.0
//
// A row of finite elements judged at once, by the rules of oracle/judge/verdict.h.

#ifndef PLUMBLINE_ORACLE_JUDGE_ROW_H_
#define PLUMBLINE_ORACLE_JUDGE_ROW_H_

#include <cstdint>
#include <optional>

#include "oracle/sweep/sweep.h"

namespace plumbline::oracle {

struct TightestPass {
  double tightness = 0;
  int64_t column = 0;  // the first that has it
};

// got[count] holds the target's values. Empty, and no more said, unless every element is one that must
// be finite, has a bound that is a number, and passes.
std::optional<TightestPass> JudgeRowOfPasses(const ElementRow& row, const double* got);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_ROW_H_

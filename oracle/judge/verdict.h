// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: results set against what they must be, element by element. A NaN never compares equal by
// accident: every comparison is written so that NaN fails unless NaN was required.
//
// Tightness of an element is max(0, |got - value| - radius) / bound; above 1 the element fails. Where
// the bound is 0 any difference beyond the radius has tightness infinity.

#ifndef PLUMBLINE_ORACLE_JUDGE_VERDICT_H_
#define PLUMBLINE_ORACLE_JUDGE_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernel/problem.h"
#include "oracle/judge/expectation.h"
#include "oracle/output.h"

namespace plumbline::oracle {

// "pass", "fail", "vacuous", "unspecified", "skipped".
std::string_view Name(Verdict verdict);

std::string_view Name(Failure failure);  // "bound", "non-finite", "sign", "not-zero"

// One element; got is the target's value widened to double (exact for every output dtype).
JudgedElement Judge(Output output, const Element& expected, double got);

struct OutputVerdict {
  Output output = Output::kLogprob;
  int64_t pass = 0, fail = 0, vacuous = 0, unspecified = 0;  // elements
  double tightness = 0;                                      // the largest among judged elements
  int64_t row = -1, column = -1;     // of the worst element: a failure before the tightest pass
  Failure failure = Failure::kNone;  // of that element
  double got = 0;
  Element expected;
};

// Every output present in results, which must be host memory shaped as Expected was asked for.
std::vector<OutputVerdict> JudgeAll(const kernel::Results& results, const Expectation& expectation);

// The tensor that holds an output; empty where it is absent.
const std::optional<kernel::Tensor>& Find(const kernel::Results& results, Output output);

// Reads element (i, j) of a float tensor in host memory, widened exactly.
double ReadElement(const kernel::ConstTensor& tensor, int64_t i, int64_t j);
// Element i of an integer tensor of rank 0 or 1.
int64_t ReadInt(const kernel::ConstTensor& tensor, int64_t i);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_VERDICT_H_

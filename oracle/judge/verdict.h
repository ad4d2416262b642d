// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: results compared, element by element, with what they must be. Every comparison is written
// so that a NaN fails unless a NaN was required.
//
// The tightness of an element is max(0, |got - value| - radius) / bound; above 1 the element fails.
// Where the bound is 0 any difference beyond the radius has tightness infinity.

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

// Judges one element. got is the target's value widened to double, which is exact for every output
// dtype.
JudgedElement Judge(Output output, const Element& expected, double got);

struct OutputVerdict {
  Output output = Output::kLogprob;
  int64_t pass = 0, fail = 0, vacuous = 0, unspecified = 0;  // elements
  double tightness = 0;                                      // the largest among judged elements
  int64_t row = -1, column = -1;     // the worst element: a failure before the tightest pass; -1: none
  Failure failure = Failure::kNone;  // the worst element's
  double got = 0;                    // and its value, widened to double
  Element expected;
};

// Judges every output present in results, which must be in host memory and have the shapes that
// Expected was asked for.
std::vector<OutputVerdict> JudgeAll(const kernel::Results& results, const Expectation& expectation);

// The tensor that holds an output; empty where it is absent.
const std::optional<kernel::Tensor>& Find(const kernel::Results& results, Output output);

// Reads element (i, j) of a float tensor in host memory, widened exactly.
double ReadElement(const kernel::ConstTensor& tensor, int64_t i, int64_t j);
// Reads element i of an integer tensor of rank 0 or 1, in host memory.
int64_t ReadInt(const kernel::ConstTensor& tensor, int64_t i);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_VERDICT_H_

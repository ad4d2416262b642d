// SPDX-License-Identifier: Apache-2.0
//
// Collects from the sweep what every output element of a problem must be, 32 bytes an element. It
// serves callers that look at all elements; judging does not need it (oracle/judge/judge.h).

#ifndef PLUMBLINE_ORACLE_JUDGE_EXPECTATION_H_
#define PLUMBLINE_ORACLE_JUDGE_EXPECTATION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/sweep/sweep.h"

namespace plumbline::oracle {

// The elements of one output, row-major: [N, H] for grad_hidden, [V, H] for grad_weight, [N, 1] for
// logprob, entropy and lse, [1, 1] for loss.
struct ExpectedTensor {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<Element> elements;  // empty: not asked for
  const Element& at(int64_t row, int64_t column) const {
    return elements[static_cast<size_t>(row * columns + column)];
  }
};

struct Expectation {
  std::array<ExpectedTensor, kOutputs.size()> outputs;  // by Output
  int64_t first_invalid_row = -1;
  const ExpectedTensor& operator[](Output o) const { return outputs[static_cast<size_t>(o)]; }
  ExpectedTensor& operator[](Output o) { return outputs[static_cast<size_t>(o)]; }
};

// Collects every output present in `wanted`, whose data is not read; its dtypes decide the output
// rounding. The problem must be in host memory and have passed the operator's own argument checks.
Expectation Expected(const kernel::Problem& problem, const kernel::Results& wanted,
                     const Contract& contract, const SweepOptions& options = {});

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_JUDGE_EXPECTATION_H_

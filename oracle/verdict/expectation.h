// SPDX-License-Identifier: Apache-2.0
//
// Keeps what every output element of a problem must be, 32 bytes an element. It serves callers that
// look at all elements (Expected in oracle/judge/judge.h); judging does not need it.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/problem.h"
#include "oracle/output.h"
#include "oracle/verdict/element_row.h"

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

// Keeps all elements of the outputs present in `wanted`, whose data is not read. first_invalid_row is
// the sweep's to say.
class Collector final : public ElementSink {
 public:
  Collector(const kernel::Problem& problem, const kernel::Results& wanted);
  void Take(const ElementRow& row) override;
  Expectation all;
};

}  // namespace plumbline::oracle

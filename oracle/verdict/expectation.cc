// SPDX-License-Identifier: Apache-2.0

#include "oracle/verdict/expectation.h"

#include "oracle/verdict/verdict.h"

namespace plumbline::oracle {

Collector::Collector(const kernel::Problem& problem, const kernel::Results& wanted) {
  for (Output output : kOutputs) {
    if (!Find(wanted, output)) continue;
    const bool matrix = output == Output::kGradHidden || output == Output::kGradWeight;
    ExpectedTensor& t = all[output];
    t.rows = output == Output::kLoss         ? 1
             : output == Output::kGradWeight ? problem.vocab()
                                             : problem.rows();
    t.columns = matrix ? problem.hidden_size() : 1;
    t.elements.assign(static_cast<size_t>(t.rows * t.columns), Element{});
  }
}

void Collector::Take(const ElementRow& row) {
  ExpectedTensor& t = all[row.output];
  for (int64_t j = 0; j < row.count; ++j) {
    t.elements[static_cast<size_t>(row.row * t.columns + j)] = row.at(j);
  }
}

}  // namespace plumbline::oracle

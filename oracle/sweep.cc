// SPDX-License-Identifier: Apache-2.0

#include "oracle/sweep.h"

#include <algorithm>
#include <vector>

#include "oracle/expectation.h"

namespace plumbline::oracle {

SweepResult Sweep(const kernel::Problem& problem, const kernel::Results& wanted,
                  const Contract& contract, const SweepOptions&, ElementSink* sink) {
  const Expectation expectation = Expected(problem, wanted, contract);
  for (Output output : kOutputs) {
    const ExpectedTensor& t = expectation[output];
    if (t.elements.empty()) continue;
    for (int64_t i = 0; i < t.rows; ++i) {
      std::vector<double> value, bound;
      std::vector<Expect> expect;
      double ratio = 0;
      for (int64_t j = 0; j < t.columns; ++j) {
        const Element& e = t.at(i, j);
        value.push_back(e.value);
        bound.push_back(e.bound);
        expect.push_back(e.expect);
        if (e.bound > 0) ratio = std::max(ratio, e.radius / e.bound);
      }
      sink->Take({output, i, t.columns, value.data(), bound.data(), expect.data(), ratio});
    }
  }
  return {expectation.first_invalid_row};
}

}  // namespace plumbline::oracle

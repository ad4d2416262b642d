// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/expectation.h"

#include <algorithm>

#include "oracle/judge/verdict.h"

namespace plumbline::oracle {
namespace {

class Collector final : public ElementSink {
 public:
  explicit Collector(Expectation* out) : out_(out) {}
  void Take(const ElementRow& row) override {
    ExpectedTensor& t = (*out_)[row.output];
    for (int64_t j = 0; j < row.count; ++j) {
      t.elements[static_cast<size_t>(row.row * t.columns + j)] = row.at(j);
    }
  }

 private:
  Expectation* out_;
};

}  // namespace

Expectation Expected(const kernel::Problem& problem, const kernel::Results& wanted,
                     const Contract& contract, const SweepOptions& options) {
  Expectation out;
  for (Output output : kOutputs) {
    if (!Find(wanted, output)) continue;
    const bool matrix = output == Output::kGradHidden || output == Output::kGradWeight;
    ExpectedTensor& t = out[output];
    t.rows = output == Output::kLoss         ? 1
             : output == Output::kGradWeight ? problem.vocab()
                                             : problem.rows();
    t.columns = matrix ? problem.hidden_size() : 1;
    t.elements.assign(static_cast<size_t>(t.rows * t.columns), Element{});
  }
  Collector collector(&out);
  out.first_invalid_row = Sweep(problem, wanted, contract, options, &collector).first_invalid_row;
  return out;
}

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0

#include "oracle/verdict/verdict.h"

#include <utility>

#include "oracle/verdict/element_verdict.h"

namespace plumbline::oracle {

std::string_view Name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"pass",        "fail",    "vacuous",
                                         "unspecified", "skipped", "suspect"};
  return kNames[static_cast<int>(verdict)];
}

std::string_view Name(Failure failure) {
  constexpr std::string_view kNames[] = {"none", "bound", "non-finite", "sign", "not-zero"};
  return kNames[static_cast<int>(failure)];
}

JudgedElement Judge(Output output, const Element& e, double got, const Promises& promises) {
  return JudgeElement(output, e, got, promises);
}

std::vector<OutputVerdict> JudgeAll(const kernel::Results& results, const Expectation& expectation,
                                    const Promises& promises) {
  std::vector<OutputVerdict> verdicts;
  for (Output output : kOutputs) {
    const auto& tensor = Find(results, output);
    if (!tensor) continue;
    const ExpectedTensor& expected = expectation[output];
    OutputVerdict& v = verdicts.emplace_back();
    v.output = output;
    for (int64_t i = 0; i < expected.rows; ++i) {
      for (int64_t j = 0; j < expected.columns; ++j) {
        const double got = ReadElement(kernel::AsConst(*tensor), i, j);
        Add(Judge(output, expected.at(i, j), got, promises), i, j, got, expected.at(i, j), &v);
      }
    }
  }
  return verdicts;
}

const std::optional<kernel::Tensor>& Find(const kernel::Results& results, Output output) {
  using kernel::Results;
  constexpr std::optional<kernel::Tensor> Results::*kTensors[] = {
      &Results::logprob, &Results::loss,        &Results::entropy,
      &Results::lse,     &Results::grad_hidden, &Results::grad_weight};
  return results.*kTensors[static_cast<size_t>(output)];
}

std::optional<kernel::Tensor>& Find(kernel::Results* results, Output output) {
  return const_cast<std::optional<kernel::Tensor>&>(Find(std::as_const(*results), output));
}

}  // namespace plumbline::oracle

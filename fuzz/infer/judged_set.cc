// SPDX-License-Identifier: Apache-2.0
#include "fuzz/infer/judged_set.h"

#include <algorithm>
#include <cmath>

#include "oracle/budget/rounded_logits.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {

using kernel::DType, oracle::Contract, oracle::Output, oracle::OutputVerdict;

JudgedSet::JudgedSet(const std::vector<InferenceCase>& cases) {
  for (const InferenceCase& each : cases) {
    Stored& stored = cases_.emplace_back();
    stored.of = &each;
    stored.problem = DenseView(each.problem);
    for (const Output output : oracle::kOutputs) {
      const HostTensor& tensor = each.results[static_cast<size_t>(output)];
      if (tensor.bytes.empty()) continue;
      const kernel::ConstTensor view = tensor.View();
      kernel::Tensor& to = oracle::Find(&stored.results, output).emplace();
      to = {const_cast<void*>(view.data), view.dtype, view.rank, {1, 1}, {1, 1}};
      std::copy_n(view.shape, view.rank, to.shape);
      std::copy_n(view.stride, view.rank, to.stride);
    }
  }
}

std::vector<OutputVerdict> JudgedSet::Judge(size_t at, const Contract& contract) const {
  return oracle::JudgeProblem(cases_[at].problem, cases_[at].results, contract).outputs;
}

std::vector<Outputs> JudgedSet::Failing(const Contract& contract) const {
  std::vector<Outputs> failing(cases_.size());
  for (size_t at = 0; at < cases_.size(); ++at) {
    for (const OutputVerdict& v : Judge(at, contract)) failing[at] |= v.fail > 0 ? Bit(v.output) : 0;
  }
  return failing;
}

SmallCase* JudgedSet::SmallOf(size_t at, const Contract& contract) {
  const auto [place, fresh] = small_.try_emplace(at);
  if (fresh) place->second = SmallCase::Of(cases_[at].problem, cases_[at].results, contract);
  return place->second.get();
}

bool JudgedSet::IsOnGrid(Output output, DType stored_in) const {
  int64_t values = 0, on = 0;
  for (const Stored& stored : cases_) {
    const DType dtype = stored_in == DType::kF32 ? stored.problem.hidden.dtype : stored_in;
    const HostTensor& tensor = stored.of->results[static_cast<size_t>(output)];
    if (tensor.bytes.empty() || dtype == DType::kF32) continue;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const auto value = static_cast<double>(tensor.GetFloat(i));
      if (!std::isfinite(value)) continue;
      ++values;
      on += oracle::RoundTo(dtype, value) == value;
    }
  }
  return static_cast<double>(on) >= 0.9 * static_cast<double>(values);
}

}  // namespace plumbline::fuzz

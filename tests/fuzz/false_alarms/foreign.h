// SPDX-License-Identifier: Apache-2.0
//
// A foreign kernel (tests/fuzz/honest) on some rows, with its gradients at some places: the operator of
// honest/operator.cc around its own softmax and products, with logits that are shared among kernels.
// The bits are those of honest::Run; tests hold it to them.

#pragma once

#include "fuzz/baseline/simulate.h"
#include "kernel/problem.h"
#include "oracle/budget/inputs.h"
#include "tests/fuzz/false_alarms/sums.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::false_alarms {

// The columns of weight that gradients of hidden need, widened once for all kernels.
class WeightColumns {
 public:
  WeightColumns(const kernel::Problem& problem, const std::vector<int64_t>& columns);
  const float* Of(size_t at) const { return columns_.data() + at * static_cast<size_t>(v_); }

 private:
  int64_t v_;
  std::vector<float> columns_;  // [columns][V]
};

struct ForeignInputs {
  const kernel::Problem& problem;  // reduction none, a temperature, labels that are valid or ignored
  const oracle::Inputs& inputs;
  const fuzz::Places& places;
  const WeightColumns& columns;
  Sums* sums;
};

// Writes the outputs that are present in `results`, at the places.
void RunForeign(const honest::Kernel& kernel, bool pairwise, const ForeignInputs& from,
                const kernel::Results& results);

}  // namespace plumbline::false_alarms

// SPDX-License-Identifier: Apache-2.0
//
// Reads what each row of a problem is: its label, its temperature, its upstream gradients, and whether
// it takes part. A label equal to ignore_index is judged first, even inside [0, V), and then nothing
// else of the row has an effect. A label outside [0, V), or a temperature that is not finite and
// positive, makes the row invalid, whatever its gradients are.

#pragma once

#include <cstdint>
#include <string>

#include "kernel/host/hooks.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

enum class RowKind : uint8_t { kNormal, kIgnored, kInvalid };

struct Row {
  RowKind kind = RowKind::kNormal;
  int64_t label = 0;  // as given
  float temperature = 1;
};

int64_t ReadLabel(const ConstTensor& labels, int64_t i);

// Returns element i of an fp32 vector, or the one element of a scalar.
float ReadFloat(const ConstTensor& tensor, int64_t i);

RowKind KindOf(int64_t label, float temperature, int64_t ignore_index, int64_t vocab);

template <class Hooks>
Row ReadRow(const Problem& problem, int64_t i, const Hooks& hooks) {
  Row row;
  row.label = ReadLabel(problem.labels, i);
  if (problem.temperature) row.temperature = ReadFloat(*problem.temperature, i);
  row.kind = KindOf(row.label, row.temperature, problem.ignore_index, problem.vocab());
  hooks.ReadRow(problem, i, row);
  return row;
}

struct RowCensus {
  int64_t counted = 0;  // rows not ignored: the n of reduction mean
  int64_t first_invalid = -1;
};
template <class Hooks>
RowCensus CountRows(const Problem& problem, const Hooks& hooks) {
  RowCensus census;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    const RowKind kind = ReadRow(problem, i, hooks).kind;
    census.counted += kind != RowKind::kIgnored;
    if (kind == RowKind::kInvalid && census.first_invalid < 0) census.first_invalid = i;
  }
  return census;
}

// Names the invalid row's fault: "labels[3] = 70000 is outside [0, 32000)", "temperature[2] = -1 is not
// finite and positive".
std::string DescribeInvalidRow(const Problem& problem, int64_t i);

// Returns d objective / d logprob of a row whose element of grad_logprob is gamma. With reduction sum
// or mean gamma is the gradient of the loss, which is the negated reduction: the result is -gamma, for
// mean divided by the rows counted.
float LogprobGradient(float gamma, Reduction reduction, int64_t counted);

// d objective / d logprob[i] and d objective / d entropy[i]; 0 where absent.
struct Upstream {
  float g = 0, k = 0;
};
template <class Hooks>
Upstream ReadUpstream(const Problem& problem, int64_t i, int64_t counted, const Hooks& hooks) {
  Upstream up;
  if (problem.grad_logprob) {
    up.g = LogprobGradient(ReadFloat(*problem.grad_logprob, i), problem.reduction, counted);
  }
  if (problem.grad_entropy) up.k = ReadFloat(*problem.grad_entropy, i);
  hooks.ReadUpstream(problem, i, counted, up);
  return up;
}

}  // namespace plumbline::kernel::host

// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/rows.h"

#include <cmath>
#include <cstdio>
#include <optional>

namespace plumbline::kernel::host {
namespace {

int64_t ReadLabel(const ConstTensor& labels, int64_t i) {
  const int64_t at = i * labels.stride[0];
  if (labels.dtype == DType::kI32) return static_cast<const int32_t*>(labels.data)[at];
  return static_cast<const int64_t*>(labels.data)[at];
}

// Element i of a vector, or the one element of a scalar.
float ReadFloat(const ConstTensor& tensor, int64_t i) {
  return static_cast<const float*>(tensor.data)[tensor.rank == 0 ? 0 : i * tensor.stride[0]];
}

bool IsTemperature(float value) { return std::isfinite(value) && value > 0; }

}  // namespace

Row ReadRow(const Problem& problem, int64_t i) {
  Row row;
  row.label = ReadLabel(problem.labels, i);
  if (problem.temperature) row.temperature = ReadFloat(*problem.temperature, i);
  if (row.label == problem.ignore_index) {
    row.kind = RowKind::kIgnored;
  } else if (row.label < 0 || row.label >= problem.vocab() || !IsTemperature(row.temperature)) {
    row.kind = RowKind::kInvalid;
  }
  return row;
}

RowCensus CountRows(const Problem& problem) {
  RowCensus census;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    const RowKind kind = ReadRow(problem, i).kind;
    census.counted += kind != RowKind::kIgnored;
    if (kind == RowKind::kInvalid && census.first_invalid < 0) census.first_invalid = i;
  }
  return census;
}

std::string DescribeInvalidRow(const Problem& problem, int64_t i) {
  const Row row = ReadRow(problem, i);
  char text[128];
  if (row.label < 0 || row.label >= problem.vocab()) {
    std::snprintf(text, sizeof text, "labels[%lld] = %lld is outside [0, %lld)",
                  static_cast<long long>(i), static_cast<long long>(row.label),
                  static_cast<long long>(problem.vocab()));
  } else {
    std::snprintf(text, sizeof text, "temperature[%lld] = %.9g is not finite and positive",
                  static_cast<long long>(i), static_cast<double>(row.temperature));
  }
  return text;
}

float LogprobGradient(const Problem& problem, int64_t i, int64_t counted) {
  if (!problem.grad_logprob) return 0;
  const float gamma = ReadFloat(*problem.grad_logprob, i);
  switch (problem.reduction) {
    case Reduction::kNone:
      return gamma;
    case Reduction::kSum:
      return -gamma;
    case Reduction::kMean:
      // In double, so that the quotient is rounded once for any count below 2^53.
      return static_cast<float>(-static_cast<double>(gamma) / static_cast<double>(counted));
  }
  return 0;
}

float EntropyGradient(const Problem& problem, int64_t i) {
  return problem.grad_entropy ? ReadFloat(*problem.grad_entropy, i) : 0;
}

}  // namespace plumbline::kernel::host

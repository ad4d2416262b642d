// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/rows.h"

#include <cmath>
#include <cstdio>

namespace plumbline::kernel::host {

int64_t ReadLabel(const ConstTensor& labels, int64_t i) {
  const int64_t at = i * labels.stride[0];
  if (labels.dtype == DType::kI32) return static_cast<const int32_t*>(labels.data)[at];
  return static_cast<const int64_t*>(labels.data)[at];
}

float ReadFloat(const ConstTensor& tensor, int64_t i) {
  return static_cast<const float*>(tensor.data)[tensor.rank == 0 ? 0 : i * tensor.stride[0]];
}

RowKind KindOf(int64_t label, float temperature, int64_t ignore_index, int64_t vocab) {
  if (label == ignore_index) return RowKind::kIgnored;
  const bool valid = label >= 0 && label < vocab && std::isfinite(temperature) && temperature > 0;
  return valid ? RowKind::kNormal : RowKind::kInvalid;
}

std::string DescribeInvalidRow(const Problem& problem, int64_t i) {
  const Row row = ReadRow(problem, i, NoHooks());
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

float LogprobGradient(float gamma, Reduction reduction, int64_t counted) {
  if (reduction == Reduction::kNone) return gamma;
  if (reduction == Reduction::kSum) return -gamma;
  // The division is in double, so that the quotient is rounded once for any count below 2^53.
  return static_cast<float>(-static_cast<double>(gamma) / static_cast<double>(counted));
}

}  // namespace plumbline::kernel::host

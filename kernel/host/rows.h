// SPDX-License-Identifier: Apache-2.0
//
// Reads what each row of a problem is: its label, its temperature, its upstream gradients, and whether
// it takes part. A label equal to ignore_index is judged first, even inside [0, V), and then nothing
// else of the row has an effect. A label outside [0, V), or a temperature that is not finite and
// positive, makes the row invalid, whatever its gradients are.

#ifndef PLUMBLINE_KERNEL_HOST_ROWS_H_
#define PLUMBLINE_KERNEL_HOST_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kernel/host/defects.h"
#include "kernel/host/tiling.h"
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

template <class Defects>
Row ReadRow(const Problem& problem, int64_t i, const Defects& defects) {
  Row row;
  row.label = ReadLabel(problem.labels, i);
  if (defects.Has(Defect::kLabelTruncated)) row.label = static_cast<int32_t>(row.label);
  if (problem.temperature) {
    row.temperature = ReadFloat(*problem.temperature, defects.Has(Defect::kFirstTemperature) ? 0 : i);
  }
  const int64_t ignore = defects.Has(Defect::kIgnoreIndexFixed) ? -100 : problem.ignore_index;
  row.kind = KindOf(row.label, row.temperature, ignore, problem.vocab());
  if (defects.Has(Defect::kLabelClamped) && row.kind == RowKind::kInvalid && problem.vocab() > 0) {
    row.label = std::clamp<int64_t>(row.label, 0, problem.vocab() - 1);
    row.kind = KindOf(row.label, row.temperature, ignore, problem.vocab());
  }
  return row;
}

// Returns the column that holds the logit of a label in [0, vocab); other labels are returned as they
// are.
template <class Defects>
int64_t LabelColumn(int64_t label, const VocabTiling& tiling, const Defects& defects) {
  if (label < 0) return label;
  if (defects.Has(Defect::kLabelOffByOne)) return std::min(label + 1, tiling.vocab - 1);
  if (defects.Has(Defect::kLabelOfFirstSplit)) return label % (tiling.tiles_per_split * kTile);
  return label;
}

struct RowCensus {
  int64_t counted = 0;  // rows not ignored: the n of reduction mean
  int64_t first_invalid = -1;
};
template <class Defects>
RowCensus CountRows(const Problem& problem, const Defects& defects) {
  RowCensus census;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    const RowKind kind = ReadRow(problem, i, defects).kind;
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

// Returns row i of an upstream gradient; 0 where absent.
template <class Defects>
float ReadGradient(const std::optional<ConstTensor>& gradient, int64_t i, const Defects& defects) {
  if (!gradient) return 0;
  const int64_t stride = gradient->rank == 0 ? 1 : gradient->stride[0];
  if (defects.Has(Defect::kGradStrideTwo) && stride == 2) {
    return static_cast<const float*>(gradient->data)[i];
  }
  if (defects.Has(Defect::kGradStrideZero) && stride == 0 && i > 0) return 0;
  return ReadFloat(*gradient, i);
}

// d objective / d logprob[i] and d objective / d entropy[i].
struct Upstream {
  float g, k;
};
template <class Defects>
Upstream ReadUpstream(const Problem& problem, int64_t i, int64_t counted, const Defects& defects) {
  Upstream up;
  const float gamma =
      ReadGradient(problem.grad_logprob, defects.Has(Defect::kFirstGradForAll) ? 0 : i, defects);
  Reduction reduction = problem.reduction;
  if (reduction == Reduction::kMean) {
    if (defects.Has(Defect::kMeanGradUndivided)) reduction = Reduction::kSum;
    if (defects.Has(Defect::kMeanGradOverAllRows)) counted = problem.rows();
  }
  up.g = problem.grad_logprob ? LogprobGradient(gamma, reduction, counted) : 0;
  if (defects.Has(Defect::kLossGradSign) && reduction != Reduction::kNone) up.g = -up.g;
  up.k = ReadGradient(problem.grad_entropy, i, defects);
  if (defects.Has(Defect::kPlainGradDivided) && reduction == Reduction::kNone) {
    up.g /= static_cast<float>(counted);
  }
  if (defects.Has(Defect::kGradTwice)) up.g *= gamma;
  if (defects.Has(Defect::kLogprobGradDropped) && problem.grad_entropy) up.g = 0;
  if (defects.Has(Defect::kEntropyGradDropped)) up.k = 0;
  return up;
}

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
//
// What each row of a problem is: its label, its temperature, its upstream gradients, and whether it
// takes part. A label equal to ignore_index is judged first, even inside [0, V), and then nothing else
// of the row is looked at; a label outside [0, V) or a temperature that is not finite and positive
// makes the row invalid, whatever its gradients are.

#ifndef PLUMBLINE_KERNEL_HOST_ROWS_H_
#define PLUMBLINE_KERNEL_HOST_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernel/host/defects.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

enum class RowKind : uint8_t { kNormal, kIgnored, kInvalid };

struct Row {
  RowKind kind = RowKind::kNormal;
  int64_t label = 0;  // as given
  float temperature = 1;
};

Row ReadRow(const Problem& problem, int64_t i);

// The column that holds the logit of a label in [0, vocab); other labels as they are.
template <class Defects>
int64_t LabelColumn(int64_t label, int64_t vocab, const Defects& defects) {
  if (!defects.Has(Defect::kLabelOffByOne) || label < 0) return label;
  return std::min(label + 1, vocab - 1);
}

struct RowCensus {
  int64_t counted = 0;  // rows not ignored: the n of reduction mean
  int64_t first_invalid = -1;
};
RowCensus CountRows(const Problem& problem);

// "labels[3] = 70000 is outside [0, 32000)", "temperature[2] = -1 is not finite and positive".
std::string DescribeInvalidRow(const Problem& problem, int64_t i);

// d objective / d logprob[i]: with reduction sum or mean the negated gradient of the loss, divided by
// the rows counted for mean; 0 where absent. Likewise d objective / d entropy[i].
float LogprobGradient(const Problem& problem, int64_t i, int64_t counted);
float EntropyGradient(const Problem& problem, int64_t i);

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_ROWS_H_

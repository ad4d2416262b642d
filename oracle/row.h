// SPDX-License-Identifier: Apache-2.0
//
// One row of the problem in fp64: the values of the forward pass, in the forms that keep their digits
// (kernel/OPERATION.md, "Forward"): t = m - x, ln s = log1p of everything but the maximum's weight,
// logprob = -t_y - ln s, entropy = ln s + sum p t, and 1 - p_v as a sum of the others.

#ifndef PLUMBLINE_ORACLE_ROW_H_
#define PLUMBLINE_ORACLE_ROW_H_

#include <cstdint>
#include <vector>

#include "oracle/inputs.h"

namespace plumbline::oracle {

// Which class of result the row has; kFinite carries numbers.
enum class RowClass : uint8_t {
  kFinite,       // some weight is positive, all of it is finite; single logits may be -inf
  kNaN,          // a NaN logit, a +inf logit, or all logits -inf
  kUnspecified,  // finite inputs outside the domain: sum |h w| max(1, 1/T) > 2^126
};

struct Row {
  RowClass row_class = RowClass::kFinite;
  double temperature = 1;
  int64_t label = 0;
  int64_t argmax = 0;
  std::vector<double> z;          // [V] logits before the temperature; -inf possible
  std::vector<double> abs_sum;    // [V] S = sum |h w|, operands raised as in Arithmetic
  std::vector<double> flushable;  // [V] sum of |h w| over subnormal operands; empty if there are none
  std::vector<int> lsb;           // [V] every product is a multiple of 2^lsb
  std::vector<double> t;          // [V] (m - z) / T >= 0; +inf at a -inf logit
  std::vector<double> p;          // [V]
  double max_x = 0;               // m / T
  double rest = 0;                // s - 1: the weights of all but the argmax
  double log_s = 0;
  double lse = 0, logprob = 0, entropy = 0;
  double mean_t = 0;  // sum p t

  double LogP(int64_t v) const { return -t[static_cast<size_t>(v)] - log_s; }
  // 1 - p_v, without cancellation where p_v is near 1.
  double Complement(int64_t v) const {
    return v == argmax ? rest / (1 + rest) : 1 - p[static_cast<size_t>(v)];
  }
};

// Row i, which must be kNormal. Reuses the memory of *row.
void ComputeRow(const Inputs& inputs, int64_t i, double least_operand, Row* row);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_ROW_H_

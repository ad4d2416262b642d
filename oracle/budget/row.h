// SPDX-License-Identifier: Apache-2.0
//
// Forward values of one row in fp64, from its logits, in the forms that keep their digits
// (kernel/OPERATION.md, "Forward"): t = m - x, ln s = log1p of everything but the maximum's weight,
// logprob = -t_y - ln s, entropy = ln s + sum p t, and 1 - p_v as a sum of the others.

#pragma once

#include <cstdint>

namespace plumbline::oracle {

// The arrays of Columns hold this many elements a step. The elements past count, up to the next
// multiple, have z = -inf, S = 0 and any lsb, which every formula reads as no column at all.
inline constexpr int64_t kColumnStep = 8;

// Dot products of one row for columns [first, first + count) of the vocabulary.
struct Columns {
  // Logits before the temperature; -inf possible. Where the contract rounds logits: these, rounded, or
  // with scaled_logits x = z/T, and the bounds of their errors for S.
  const double* z = nullptr;
  const double* abs_sum = nullptr;     // S = sum |h w|
  const double* flushable = nullptr;   // sum of |h w| over subnormal operands; null if there are none
  const double* weight_lsb = nullptr;  // the lowest set bit of any element of weight's row, as a value
  double hidden_lsb = 0;               // the same of the row of hidden: every product is a multiple of
                                       // hidden_lsb * weight_lsb
  int64_t first = 0;
  int64_t count = 0;
};

// The class of a row's result. kFinite alone has numbers.
enum class RowClass : uint8_t {
  kFinite,       // some weight is positive, all of it is finite; single logits may be -inf
  kNaN,          // a NaN logit, a +inf logit, or all logits -inf
  kUnspecified,  // finite inputs outside the domain: sum |h w| max(1, 1/T) > 2^126
};

struct Row {
  RowClass row_class = RowClass::kFinite;
  bool empty = false;  // kNaN because all logits are -inf
  double temperature = 1;
  double inverse = 1;  // 1 / T, rounded
  // x of a column's z: 1 / T, or 1 where columns hold x already (contract.scaled_logits).
  double logit_scale = 1;
  int64_t vocab = 0;
  int64_t label = 0;
  int64_t argmax = 0;
  double max_z = 0;      // m before the temperature
  double max_x = 0;      // m / T
  double max_abs_x = 0;  // the largest |z / T| of a column that is not -inf
  double max_sum = 0;    // the largest S of a column that is not -inf
  double rest = 0;       // s - 1: the weights of all but the argmax
  double inverse_s = 1;  // 1 / s
  double log_s = 0;
  double lse = 0, logprob = 0, entropy = 0;
  double label_z = 0;           // the label's logit; -inf possible
  double label_t = 0;           // (m - x_y)
  double label_complement = 0;  // 1 - p_y, without cancellation where p_y is near 1
};

// Sums over the columns of one row, in two passes; FinishRow makes a Row of them.
struct Extremes {
  double max = 0;
  int64_t argmax = 0;  // the first
  bool nan = false;    // a NaN or +inf among the logits
  double min = 0;      // the least logit that is not -inf
  double max_abs = 0;  // the largest S of a column that is not -inf
};
struct Weights {
  double rest = 0;      // sum of e^-t over every column but argmax
  double weighted = 0;  // sum of t e^-t
};

// The row as far as its extremes tell: class, T and m. `weights` are needed only where it is kFinite.
// `scaled`: columns hold x and not z.
Row BeginRow(const Extremes& extremes, int64_t vocab, double temperature, int64_t label, bool scaled);
void FinishRow(const Weights& weights, double label_z, Row* row);

// The row from all of its columns. Its errors, with u = 2^-53, are three roundings in t, 2u in exp and
// in log1p (the libraries document 1 ulp) and vocab u in the sums. RadiusOver
// (oracle/budget/arithmetic.h) counts with these.
Row ComputeRow(const Columns& all, double temperature, int64_t label, bool scaled);

}  // namespace plumbline::oracle

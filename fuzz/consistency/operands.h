// SPDX-License-Identifier: Apache-2.0
//
// What the consistency checks read of a problem's inputs: rows, norms and maxima, in one pass over
// hidden and weight. No logit is formed.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/problem.h"
#include "oracle/budget/inputs.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

struct Operands {
  oracle::Inputs in;
  // By row of hidden. Nonzero elements count as at least `least` (ERROR-BUDGET.md, "Dot products").
  std::vector<double> hidden_norm;  // Euclidean
  std::vector<double> hidden_sum;   // sum of magnitudes
  std::vector<bool> hidden_finite;
  std::vector<double> label_norm;  // of the row of weight that is the row's label; 0 if it is none
  double weight_norm = 0;          // the largest Euclidean norm of a row of weight
  double weight_sum = 0;           // the sum of all magnitudes
  bool weight_finite = true;
  double largest = 0;  // the largest magnitude of an element of either
  // sqrt(sum over d of h_d^2 times the mean square of weight's column d): what a logit is like where
  // its products have random signs. 0 without the statistical tier.
  std::vector<double> usual_logit;
  // Dimensions in which all rows of weight have the same value, and that value.
  std::vector<int64_t> equal_dimensions;
  std::vector<double> equal_value;

  // Cauchy-Schwarz: no sum over d of |h_d w_vd| is larger, of any v or of the row's label.
  double LargestProduct(int64_t row) const { return hidden_norm[At(row)] * weight_norm; }
  double LabelProduct(int64_t row) const { return hidden_norm[At(row)] * label_norm[At(row)]; }

 private:
  static size_t At(int64_t i) { return static_cast<size_t>(i); }
};

// `counted`: the divisor of `mean` where the problem is a part of a larger one.
Operands ReadOperands(const kernel::Problem& problem, const oracle::Contract& contract, double least,
                      std::optional<int64_t> counted, bool statistical);

// For each row the first row that has the same bits, itself if there is none: such rows err alike.
std::vector<int64_t> FirstAlike(const kernel::ConstTensor& matrix);

}  // namespace plumbline::fuzz

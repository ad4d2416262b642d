// SPDX-License-Identifier: Apache-2.0
//
// What all checks share: the problem, the results, what each row may err, and the report.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/consistency/consistency.h"
#include "fuzz/consistency/operands.h"
#include "fuzz/consistency/row_errors.h"
#include "oracle/budget/arithmetic.h"

namespace plumbline::fuzz {

// A row's statistical tier: what is left of its errors where logits are exact, and the standard
// deviation of a logit's error before the temperature.
struct UsualRow {
  RowErrors errors;
  double dot_error = 0;
  // Sum over v of |dz z| is usually at most this, over errors.magnitude.
  double logit = 0;
};

// Sums over grad_weight, by column of H, and its inner product with weight.
struct WeightSums {
  bool finite = true;
  std::vector<double> sum, magnitude;
  std::vector<double> rounding, rounding_squares;  // to grad_weight's dtype
  double underflow = 0;                            // of each element
  double inner = 0, inner_magnitude = 0;           // <grad_weight, weight>, and of magnitudes
  double inner_rounding = 0, inner_rounding_squares = 0;
};

struct ConsistencyContext {
  const kernel::Problem& problem;
  const kernel::Results& results;
  const ConsistencyOptions& options;
  Operands operands;
  oracle::ArithmeticByTemperature arithmetic;
  double input_rounding = 0;
  std::vector<RowErrors> rows;  // by row; of rows that are not normal nothing holds
  std::vector<UsualRow> usual;  // empty without the statistical tier
  WeightSums weight;            // empty without a grad_weight
  ConsistencyReport report;

  bool statistical() const { return !usual.empty(); }
  const oracle::Inputs& in() const { return operands.in; }
  const oracle::Arithmetic& At(int64_t row) const;  // by the row's temperature
  RowInputs InputsOf(int64_t row) const;
  // The first row that takes part in the gradients and of which nothing can be said; -1: none.
  int64_t FirstUnfitRow() const;
  // One value of a row's output, NaN where it is absent.
  double Value(const std::optional<kernel::Tensor>& tensor, int64_t row) const;
  // What the rounding of an output to the dtype that it is stored in may change of a value.
  double Stored(oracle::Output output, double value) const;
  // What the row is called in sentences.
  long long NameOf(int64_t row) const;
  void LeaveOut(std::string_view check, const std::string& reason);
};

// The contract's errors of a gradient's sum, by the rigorous or the usual arithmetic.
struct GradientErrors {
  double gain = 0;                        // of each product, relative
  double underflow = 0;                   // of each element
  double rounding = 0, rounding_eta = 0;  // of the output's dtype; 0 for fp32
};
GradientErrors GradientErrorsOf(const ConsistencyContext& context, oracle::Output output,
                                const oracle::Arithmetic& arithmetic);

// The factor for the root of a sum of squares of independent errors, each sub-Gaussian with mean 0: m
// sums of them are all within with a probability of 1 - kFalseAlarm (Hoeffding's inequality).
double TailFactor(int64_t sums);

// Keeps the worst of what is compared. `scale` is what `left` can be at most: a tolerance of that size
// says nothing.
void Compare(double left, double tolerance, double usual, double scale, int64_t row, int64_t column,
             ConsistencyCheck* check);

// --- The checks. Each adds itself to the report, or a reason why it is left out.
void CheckColumnSums(ConsistencyContext* context);
void CheckInnerProducts(ConsistencyContext* context);
void CheckRowInnerProducts(ConsistencyContext* context);
void CheckEqualWeights(ConsistencyContext* context);
void CheckEntropyRange(ConsistencyContext* context);
void CheckLossSum(ConsistencyContext* context);
void CheckOutputGrids(ConsistencyContext* context);
void CheckLogitGrid(ConsistencyContext* context);

}  // namespace plumbline::fuzz

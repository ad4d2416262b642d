// SPDX-License-Identifier: Apache-2.0
#include "fuzz/consistency/consistency.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/consistency/context.h"
#include "fuzz/consistency/gradient_sums.h"
#include "oracle/budget/finish.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Arithmetic;
using oracle::Output;

// Below these sizes a sum of few errors is not like its root mean square.
constexpr int64_t kLeastRows = 8, kLeastColumns = 64, kLeastHidden = 64;

// What rounding a logit, and the logit by T, to 16 bits moves it by at most.
double LogitStep(const Arithmetic& a, double largest) {
  double step = 0;
  for (const auto& dtype : {a.logits, a.scaled_logits}) {
    if (!dtype) continue;
    const oracle::Rounding to = oracle::RoundingOf(*dtype);
    step += to.u * (largest + step) + to.eta;
  }
  return step;
}

// B_z of every logit of a row: "Dot products" with Cauchy-Schwarz for the sum of magnitudes.
double DotError(const Operands& operands, int64_t row, int64_t hidden_size, const Arithmetic& a) {
  const double length = static_cast<double>(hidden_size);
  double error = a.dot_logit * operands.LargestProduct(row) + (length + 1) * a.eta;
  // Products with an operand below 2^-126 may be lost.
  if (a.flush_operands) error += length * 0x1p-126 * operands.largest;
  return error + a.partial_underflow + LogitStep(a, operands.LargestProduct(row) + error);
}

// Why the checks say nothing under a contract; empty if they hold. They hold for any logits that
// forward and backward share, but sums of probabilities in 16 bits, or without some columns, are not
// derived.
std::string WhyNotUnder(const oracle::Contract& contract) {
  if (contract.log_probs.Narrow()) return "log-probabilities are kept in 16 bits";
  if (contract.probabilities.Narrow()) return "probabilities are rounded to 16 bits";
  if (contract.filter > 0) return "small d_logits are left out";
  return {};
}

UsualRow UsualRowOf(const ConsistencyContext& c, int64_t row) {
  UsualRow usual;
  RowInputs inputs = c.InputsOf(row);
  const Arithmetic& a = c.At(row);
  const double lse = c.Value(c.results.lse, row), logprob = c.Value(c.results.logprob, row);
  const double known = std::fabs(lse) + std::fabs(logprob);
  const double l = LargestEntropy(inputs.vocab), t = inputs.temperature;
  const double largest = inputs.largest_logit, drawn = c.operands.usual_logit[static_cast<size_t>(row)];
  // |x_y| = |logprob + lse|, and |x| <= |lse| + |ln p|, where both are at hand.
  const double of_mass = t * std::max(std::fabs(logprob + lse), std::fabs(lse) + l + 1.2);
  usual.logit = std::isfinite(known) ? std::min(largest, of_mass) : largest;
  const double at_label = std::isfinite(known) ? t * known : 5 * drawn;
  usual.dot_error =
      UsualDotError(a, c.input_rounding, largest, drawn, at_label) + LogitStep(a, usual.logit);
  inputs.dot_error = 0;
  usual.errors = ErrorsOfRow(inputs, UsualArithmetic(a, c.input_rounding));
  return usual;
}

}  // namespace

std::string_view Name(ConsistencyVerdict verdict) {
  constexpr std::string_view kNames[] = {"holds", "suspect", "wrong", "says nothing"};
  return kNames[static_cast<int>(verdict)];
}

bool IsBroken(const ConsistencyCheck& check) {
  return check.verdict == ConsistencyVerdict::kWrong || check.verdict == ConsistencyVerdict::kSuspect;
}

std::span<const Output> ComparedOutputs(std::string_view check) {
  static constexpr Output kAll[] = {Output::kLogprob,    Output::kEntropy,    Output::kLse,
                                    Output::kGradHidden, Output::kGradWeight, Output::kLoss};
  static constexpr Output kGradients[] = {Output::kGradHidden, Output::kGradWeight};
  static constexpr Output kByRow[] = {Output::kGradHidden, Output::kLogprob, Output::kEntropy};
  static constexpr Output kRange[] = {Output::kEntropy, Output::kLogprob};
  static constexpr Output kLoss[] = {Output::kLoss, Output::kLogprob};
  if (check == "column-sums") return std::span(kGradients).last(1);
  if (check == "inner-products") return kGradients;
  if (check == "row-inner-products") return kByRow;
  if (check == "equal-weights") return std::span(kGradients).first(1);
  if (check == "entropy-range") return kRange;
  if (check == "loss-sum") return kLoss;
  return kAll;
}

const Arithmetic& ConsistencyContext::At(int64_t row) const {
  return arithmetic.At(in().temperature[static_cast<size_t>(row)]);
}

RowInputs ConsistencyContext::InputsOf(int64_t row) const {
  const auto at = static_cast<size_t>(row);
  const Arithmetic& a = At(row);
  RowInputs inputs;
  inputs.vocab = problem.vocab();
  inputs.temperature = in().temperature[at];
  inputs.g = in().g[at];
  inputs.k = in().k[at];
  inputs.g_error = problem.reduction == kernel::Reduction::kMean ? a.upstream_division : 0;
  inputs.largest_logit = operands.LargestProduct(row);
  inputs.dot_error = DotError(operands, row, problem.hidden_size(), a);
  return inputs;
}

int64_t ConsistencyContext::FirstUnfitRow() const {
  for (int64_t i = 0; i < in().n; ++i) {
    if (!in().LeftOut(i) && !rows[static_cast<size_t>(i)].gradient) return i;
  }
  return -1;
}

double ConsistencyContext::Value(const std::optional<kernel::Tensor>& tensor, int64_t row) const {
  if (!tensor) return std::nan("");
  return oracle::ReadElement(kernel::AsConst(*tensor), row, 0);
}

double ConsistencyContext::Stored(Output output, double value) const {
  const auto& dtype = options.stored[static_cast<size_t>(output)];
  if (!dtype || *dtype == kernel::DType::kF32) return 0;
  const oracle::Rounding rounding = oracle::RoundingOf(*dtype);
  // u of the value before it is rounded, which is given as rounded.
  return rounding.u / (1 - rounding.u) * (std::fabs(value) + rounding.eta) + rounding.eta;
}

long long ConsistencyContext::NameOf(int64_t row) const {
  return options.row_names.empty() ? row : options.row_names[static_cast<size_t>(row)];
}

void ConsistencyContext::LeaveOut(std::string_view check, const std::string& reason) {
  report.left_out.push_back(std::string(check) + ": " + reason);
}

GradientErrors GradientErrorsOf(const ConsistencyContext& c, Output output, const Arithmetic& a) {
  const bool hidden = output == Output::kGradHidden;
  const kernel::Tensor& tensor = hidden ? *c.results.grad_hidden : *c.results.grad_weight;
  const kernel::DType dtype = c.options.stored[static_cast<size_t>(output)].value_or(tensor.dtype);
  const int64_t length = hidden ? c.problem.vocab() : c.problem.rows();
  const oracle::GradientSum sum = oracle::GradientSumOf(output, dtype, length, a, {});
  GradientErrors errors{oracle::GradientGain(output, a), sum.underflow, 0, 0};
  if (sum.rounded) {
    // u of the value before it is rounded, of the value as rounded.
    errors.rounding = sum.rounding.u / (1 - sum.rounding.u);
    errors.rounding_eta = sum.rounding.eta;
  }
  return errors;
}

double TailFactor(int64_t sums) {
  return std::sqrt(2 * std::log(2 * static_cast<double>(std::max<int64_t>(sums, 1)) / kFalseAlarm));
}

void Compare(double left, double tolerance, double usual, double scale, int64_t row, int64_t column,
             ConsistencyCheck* check) {
  if (!(tolerance < scale) && !(usual < scale)) return;
  const double limit = std::min(usual, tolerance);
  ++check->compared;
  const auto verdict = left > tolerance ? ConsistencyVerdict::kWrong
                       : left > limit   ? ConsistencyVerdict::kSuspect
                                        : ConsistencyVerdict::kHolds;
  const double kept = std::min(check->usual, check->tolerance);
  const bool worse =
      verdict != check->verdict ? verdict > check->verdict : left * kept > check->left * limit;
  if (check->compared > 1 && !worse) return;
  check->verdict = verdict;
  check->row = row;
  check->column = column;
  check->left = left;
  check->tolerance = tolerance;
  check->usual = std::isfinite(usual) ? limit : usual;
}

ConsistencyReport CheckConsistency(const kernel::Problem& problem, const kernel::Results& results,
                                   const oracle::Contract& contract,
                                   const ConsistencyOptions& options) {
  if (const std::string why = WhyNotUnder(contract); !why.empty()) {
    ConsistencyReport none;
    none.left_out.push_back("all checks: " + why);
    return none;
  }
  const oracle::Shape shape = {problem.rows(), problem.vocab(), problem.hidden_size()};
  const oracle::ArithmeticByTemperature arithmetic(contract, problem.hidden.dtype, shape);
  ConsistencyOptions given = options;
  for (const Output output : oracle::kOutputs) {
    const auto o = static_cast<size_t>(output);
    const auto& tensor = oracle::Find(results, output);
    // A gradient in 16 bits is rounded to its own dtype, too, which GradientSumOf counts.
    const bool wide = tensor && tensor->dtype == kernel::DType::kF32;
    if (wide && !given.stored[o]) given.stored[o] = contract.outputs[o].For(problem.hidden.dtype);
  }
  ConsistencyContext c{problem,
                       results,
                       given,
                       ReadOperands(problem, contract, arithmetic.any.least_operand,
                                    options.counted_rows, options.statistical),
                       arithmetic,
                       contract.input_rounding,
                       {},
                       {},
                       {},
                       {}};
  const bool many = shape.n >= kLeastRows && shape.v >= kLeastColumns && shape.h >= kLeastHidden;
  for (int64_t i = 0; i < shape.n; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool normal = c.in().kind[at] == oracle::RowKind::kNormal && c.operands.weight_finite &&
                        c.operands.hidden_finite[at];
    c.rows.push_back(normal ? ErrorsOfRow(c.InputsOf(i), c.At(i)) : RowErrors{});
    if (!options.statistical || !many) continue;
    c.usual.push_back(normal ? UsualRowOf(c, i) : UsualRow{});
  }
  if (results.grad_weight) c.weight = SumGradWeight(c);
  CheckColumnSums(&c);
  CheckInnerProducts(&c);
  CheckRowInnerProducts(&c);
  CheckEqualWeights(&c);
  CheckEntropyRange(&c);
  CheckLossSum(&c);
  if (options.statistical) {
    CheckOutputGrids(&c);
    const bool narrow = arithmetic.any.RoundsLogits() || contract.partials.Narrow();
    if (!narrow) CheckLogitGrid(&c);
  }
  return std::move(c.report);
}

}  // namespace plumbline::fuzz

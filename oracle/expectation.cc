// SPDX-License-Identifier: Apache-2.0

#include "oracle/expectation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/arithmetic.h"
#include "oracle/budget.h"
#include "oracle/inputs.h"
#include "oracle/row.h"

namespace plumbline::oracle {
namespace {

using kernel::Problem;
using kernel::Reduction;
using kernel::Results;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Element Zero() { return {Expect::kFinite, 0, 0, 0}; }
Element PlusZero() { return {Expect::kPlusZero, 0, 0, 0}; }
Element NotANumber() { return {Expect::kNaN, std::numeric_limits<double>::quiet_NaN(), 0, 0}; }
Element Unspecified() { return {Expect::kUnspecified, 0, 0, 0}; }

// A finite element; vacuous where the bound reaches the width of what the output can be at all.
Element Bounded(double value, double radius, double bound, double range) {
  if (std::isnan(value)) return NotANumber();
  const bool vacuous = !(bound < range) || !(radius < range);
  return {vacuous ? Expect::kVacuous : Expect::kFinite, value, radius, bound};
}

// A gradient element: rounded to its dtype; unspecified where it may overflow it.
// `errors` bounds the products and sums; `underflow` is added where there are any. What is below the
// dtype's own resolution is not vacuous: a gradient that is far from 0 still shows.
Element Stored(double value, double radius, double errors, double underflow, double range,
               const Rounding& rounding, bool rounded) {
  if (std::isnan(value)) return NotANumber();
  if (errors == 0) return {Expect::kFinite, value, 0, 0};  // every product is exactly 0
  double bound = errors + underflow;
  range = std::max(range, 4 * (underflow + rounding.eta));
  // 0 * infinity: the row's budget says nothing, so neither does this.
  if (std::isnan(bound)) bound = kInfinity;
  if (std::isnan(radius)) radius = kInfinity;
  // What may overflow its dtype may be infinite; an infinite bound still leaves the output's range.
  if (std::fabs(value) + std::min(bound, range) > rounding.largest) return Unspecified();
  if (rounded) bound += rounding.u * (std::fabs(value) + bound) + rounding.eta;
  return Bounded(value, radius, bound, range);
}

void Allocate(const std::optional<kernel::Tensor>& wanted, int64_t rows, int64_t columns,
              ExpectedTensor* t) {
  if (!wanted) return;
  t->rows = rows;
  t->columns = columns;
  t->elements.assign(static_cast<size_t>(rows * columns), Unspecified());
}

void Put(ExpectedTensor* t, int64_t row, const Element& e) {
  if (!t->elements.empty()) t->elements[static_cast<size_t>(row)] = e;
}

// Everything that Expected carries from row to row.
class Builder {
 public:
  Builder(const Problem& problem, const Results& wanted, const Contract& contract);
  Expectation Build();

 private:
  void ForwardRow(int64_t i);
  void BackwardRow(int64_t i);
  void FillRow(int64_t i, const Element& forward, const Element& gradient);
  void FinishLoss();
  void FinishGradWeight();

  Inputs in_;
  const Results& wanted_;
  Reduction reduction_;
  Arithmetic target_, reference_;
  Expectation out_;
  Row row_;
  RowBudget bound_, radius_;
  double log_v_ = 0;

  // Of the loss.
  double loss_ = 0, loss_abs_ = 0, loss_bound_ = 0, loss_radius_ = 0;
  bool loss_nan_ = false, loss_infinite_ = false, loss_unspecified_ = false;

  // Of the gradients: exact value, and the sums that bound it.
  std::vector<double> coefficient_;                                 // [V] of one row
  std::vector<double> weight_value_, weight_bound_, weight_range_;  // [V, H]
  std::vector<double> column_max_;                                  // [H] max over v of |w|
  double weight_ratio_ = 0;  // radius over bound, the largest of any row and column
  int64_t active_rows_ = 0;
  bool weight_nan_ = false, weight_unspecified_ = false;
};

Builder::Builder(const Problem& problem, const Results& wanted, const Contract& contract)
    : in_(LoadInputs(problem)), wanted_(wanted), reduction_(problem.reduction) {
  const Shape shape{in_.n, in_.v, in_.h};
  target_ = TargetArithmetic(contract, problem.hidden.dtype, shape);
  reference_ = ReferenceArithmetic(shape);
  out_.first_invalid_row = in_.first_invalid_row;
  log_v_ = in_.v > 0 ? std::log(static_cast<double>(in_.v)) : 0;
  Allocate(wanted.logprob, in_.n, 1, &out_[Output::kLogprob]);
  Allocate(wanted.loss, 1, 1, &out_[Output::kLoss]);
  Allocate(wanted.entropy, in_.n, 1, &out_[Output::kEntropy]);
  Allocate(wanted.lse, in_.n, 1, &out_[Output::kLse]);
  Allocate(wanted.grad_hidden, in_.n, in_.h, &out_[Output::kGradHidden]);
  Allocate(wanted.grad_weight, in_.v, in_.h, &out_[Output::kGradWeight]);
  if (wanted.grad_weight) {
    const auto size = static_cast<size_t>(in_.v * in_.h);
    weight_value_.assign(size, 0.0);
    weight_bound_.assign(size, 0.0);
    weight_range_.assign(size, 0.0);
  }
  if (wanted.grad_hidden) {
    column_max_.assign(static_cast<size_t>(in_.h), 0.0);
    for (size_t c = 0; c < static_cast<size_t>(in_.v); ++c) {
      for (size_t d = 0; d < static_cast<size_t>(in_.h); ++d) {
        column_max_[d] =
            std::max(column_max_[d], std::fabs(in_.weight[c * static_cast<size_t>(in_.h) + d]));
      }
    }
  }
}

void Builder::FillRow(int64_t i, const Element& forward, const Element& gradient) {
  for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse}) Put(&out_[o], i, forward);
  if (!out_[Output::kGradHidden].elements.empty()) {
    for (int64_t d = 0; d < in_.h; ++d) Put(&out_[Output::kGradHidden], i * in_.h + d, gradient);
  }
}

void Builder::ForwardRow(int64_t i) {
  BudgetForward(row_, target_, in_.h, &bound_);
  BudgetForward(row_, reference_, in_.h, &radius_);
  const double range = std::max(log_v_, 0.5);
  Put(&out_[Output::kEntropy], i, Bounded(row_.entropy, radius_.entropy, bound_.entropy, range));
  Put(&out_[Output::kLse], i,
      Bounded(row_.lse, radius_.lse, bound_.lse, std::max(range, std::fabs(row_.lse))));
  if (row_.logprob == -kInfinity) {
    Put(&out_[Output::kLogprob], i, {Expect::kMinusInf, -kInfinity, 0, 0});
    loss_infinite_ = true;
    return;
  }
  Put(&out_[Output::kLogprob], i,
      Bounded(row_.logprob, radius_.logprob, bound_.logprob, std::max(range, std::fabs(row_.logprob))));
  loss_ -= row_.logprob;
  loss_abs_ += std::fabs(row_.logprob);
  loss_bound_ += bound_.logprob;
  loss_radius_ += radius_.logprob;
}

void Builder::BackwardRow(int64_t i) {
  const auto r = static_cast<size_t>(i), v = static_cast<size_t>(in_.v), h = static_cast<size_t>(in_.h);
  const double g = in_.g[r], k = in_.k[r];
  const bool mean = reduction_ == Reduction::kMean;
  BudgetGradient(row_, target_, g, k, mean ? target_.u : 0, &bound_);
  BudgetGradient(row_, reference_, g, k, mean ? reference_.u : 0, &radius_);
  const std::vector<double>& dz = bound_.d_logits_value;
  if (bound_.d_logits_overflow) {  // the row's gradient keeps the Unspecified that it was filled with
    weight_unspecified_ = true;
    return;
  }

  // One coefficient a column: the error of dz, and of multiplying and adding it.
  const auto coefficients = [&](double dot_target, double dot_reference, double chunks) {
    const double gain = dot_target + (chunks > 0 ? Gamma(chunks + 1, target_.accumulator.u) : 0);
    double ratio = 0;
    coefficient_.resize(v);
    for (size_t c = 0; c < v; ++c) {
      const double b = bound_.d_logits[c], e = radius_.d_logits[c];
      coefficient_[c] = b + gain * Magnitude(std::fabs(dz[c]) + b, target_.least_operand);
      const double mine = e + dot_reference * (std::fabs(dz[c]) + e);
      if (coefficient_[c] > 0) ratio = std::max(ratio, mine / coefficient_[c]);
    }
    return std::isnan(ratio) ? kInfinity : ratio;
  };

  if (wanted_.grad_hidden) {
    const double ratio =
        coefficients(target_.dot_grad_hidden, reference_.dot_grad_hidden, target_.chunks_hidden);
    std::vector<double> value(h, 0.0), bound(h, 0.0);
    for (size_t c = 0; c < v; ++c) {
      const double* w = in_.weight.data() + c * h;
      for (size_t d = 0; d < h; ++d) {
        value[d] += dz[c] * w[d];
        bound[d] += coefficient_[c] * Magnitude(w[d], target_.least_operand);
      }
    }
    const kernel::DType dtype = wanted_.grad_hidden->dtype;
    const Rounding rounding = RoundingOf(dtype);
    const double underflow = static_cast<double>(in_.v + 1) * target_.eta +
                             2 * target_.chunks_hidden * target_.accumulator.eta;
    const double mass =
        (2 * std::fabs(g) + 2 * std::fabs(k) * std::max(log_v_, 0.5)) / row_.temperature;
    for (size_t d = 0; d < h; ++d) {
      Put(&out_[Output::kGradHidden], i * in_.h + static_cast<int64_t>(d),
          Stored(value[d], ratio * bound[d], bound[d], underflow, mass * column_max_[d], rounding,
                 dtype != kernel::DType::kF32));
    }
  }
  if (wanted_.grad_weight) {
    weight_ratio_ = std::max(
        weight_ratio_,
        coefficients(target_.dot_grad_weight, reference_.dot_grad_weight, target_.chunks_weight));
    const double* x = in_.hidden.data() + r * h;
    const double mass = (std::fabs(g) + std::fabs(k) * (0.5 + log_v_)) / row_.temperature;
    for (size_t c = 0; c < v; ++c) {
      for (size_t d = 0; d < h; ++d) {
        const double abs_x = std::fabs(x[d]);
        weight_value_[c * h + d] += dz[c] * x[d];
        weight_bound_[c * h + d] += coefficient_[c] * Magnitude(x[d], target_.least_operand);
        weight_range_[c * h + d] += mass * abs_x;
      }
    }
  }
}

void Builder::FinishLoss() {
  if (!wanted_.loss) return;
  Element e;
  if (loss_nan_) {
    e = NotANumber();
  } else if (loss_unspecified_) {
    e = Unspecified();
  } else if (loss_infinite_) {
    e = {Expect::kPlusInf, kInfinity, 0, 0};
  } else {
    const double n = static_cast<double>(in_.n);
    double bound = loss_bound_ + Gamma(n, target_.u) * (loss_abs_ + loss_bound_);
    double radius = loss_radius_ + Gamma(n, reference_.u) * (loss_abs_ + loss_radius_);
    double value = loss_;
    if (reduction_ == Reduction::kMean && in_.counted > 0) {
      const double count = static_cast<double>(in_.counted);
      value /= count;
      bound = bound / count + 2 * target_.u * std::fabs(value);
      radius = radius / count + 2 * reference_.u * std::fabs(value);
    }
    e = Bounded(value, radius, bound, std::max({0.5, log_v_, std::fabs(value)}));
    if (in_.counted == 0) e = Zero();
  }
  Put(&out_[Output::kLoss], 0, e);
}

void Builder::FinishGradWeight() {
  if (!wanted_.grad_weight) return;
  ExpectedTensor& t = out_[Output::kGradWeight];
  const Rounding rounding = RoundingOf(wanted_.grad_weight->dtype);
  const bool rounded = wanted_.grad_weight->dtype != kernel::DType::kF32;
  const double underflow = static_cast<double>(in_.n + 1) * target_.eta +
                           2 * target_.chunks_weight * target_.accumulator.eta;
  for (size_t e = 0; e < t.elements.size(); ++e) {
    t.elements[e] = weight_nan_           ? NotANumber()
                    : weight_unspecified_ ? Unspecified()
                    : active_rows_ == 0
                        ? PlusZero()
                        : Stored(weight_value_[e], weight_ratio_ * weight_bound_[e], weight_bound_[e],
                                 underflow, weight_range_[e], rounding, rounded);
  }
}

Expectation Builder::Build() {
  for (int64_t i = 0; i < in_.n; ++i) {
    const auto r = static_cast<size_t>(i);
    if (in_.kind[r] == RowKind::kIgnored) {
      FillRow(i, Zero(), PlusZero());
      continue;
    }
    if (in_.kind[r] == RowKind::kInvalid) {
      FillRow(i, NotANumber(), NotANumber());
      loss_nan_ = weight_nan_ = true;
      continue;
    }
    ComputeRow(in_, i, target_.least_operand, &row_);
    const bool left_out = in_.LeftOut(i);
    const bool gradient_known =
        row_.row_class == RowClass::kFinite && std::isfinite(in_.g[r]) && std::isfinite(in_.k[r]);
    const Element gradient = left_out                           ? PlusZero()
                             : row_.row_class == RowClass::kNaN ? NotANumber()
                                                                : Unspecified();
    const Element forward = row_.row_class == RowClass::kNaN ? NotANumber() : Unspecified();
    FillRow(i, forward, gradient);
    if (row_.row_class == RowClass::kFinite) {
      ForwardRow(i);
    } else {
      (row_.row_class == RowClass::kNaN ? loss_nan_ : loss_unspecified_) = true;
    }
    if (left_out || !(wanted_.grad_hidden || wanted_.grad_weight)) continue;
    ++active_rows_;
    if (gradient_known) {
      BackwardRow(i);
    } else {
      weight_unspecified_ = true;  // "grad_weight may be NaN"
    }
  }
  FinishLoss();
  FinishGradWeight();
  return std::move(out_);
}

}  // namespace

Expectation Expected(const Problem& problem, const Results& wanted, const Contract& contract) {
  return Builder(problem, wanted, contract).Build();
}

}  // namespace plumbline::oracle

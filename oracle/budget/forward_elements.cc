// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/forward_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/budget/finish.h"
#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LogOf(int64_t vocab) { return vocab > 0 ? std::log(static_cast<double>(vocab)) : 0; }

}  // namespace

ForwardElements ForwardOf(const Row& row, const RowBudget& b, double ratio) {
  if (row.row_class == RowClass::kNaN) {
    ForwardElements nan = {NotANumber(), NotANumber(), NotANumber()};
    if (row.empty) nan.lse.expect = Expect::kEmptyLse;
    return nan;
  }
  if (row.row_class == RowClass::kUnspecified) return {Unspecified(), Unspecified(), Unspecified()};
  const double range = std::max(LogOf(row.vocab), 0.5);
  ForwardElements e;
  e.entropy =
      b.entropy_overflows ? Unspecified() : Bounded(row.entropy, ratio * b.entropy, b.entropy, range);
  e.lse = Bounded(row.lse, ratio * b.lse, b.lse, std::max(range, std::fabs(row.lse)));
  e.logprob = row.logprob == -kInfinity ? Element{Expect::kMinusInf, -kInfinity, 0, 0}
                                        : Bounded(row.logprob, ratio * b.logprob, b.logprob,
                                                  std::max(range, std::fabs(row.logprob)));
  return e;
}

Element Written(Output output, Element e, const Arithmetic& target) {
  const Rounding& to = target.Of(output);
  if (to.u == 0 || (e.expect != Expect::kFinite && e.expect != Expect::kVacuous)) return e;
  const double magnitude = std::fabs(e.value) + e.bound;
  if (!(magnitude <= to.largest)) {
    // Logits within the contract's domain err by less than they are large, so bf16 holds the result
    // of a row whose bound says nothing.
    const bool held = kPlanted == OracleDefect::kVacuousIsHeld ||
                      (to.largest >= 0x1p127 && std::fabs(e.value) <= 0x1p126);
    return e.expect == Expect::kVacuous && held ? e : Unspecified();
  }
  if constexpr (kPlanted == OracleDefect::kOutputsAsTheyAre) return e;
  e.bound += to.u * magnitude + to.eta;
  return e;
}

std::optional<Element> ConstantGradient(const Inputs& in, int64_t i, const Row& row, bool overflows) {
  if (in.LeftOut(i)) return PlusZero();
  const auto at = static_cast<size_t>(i);
  if (row.row_class == RowClass::kNaN) return NotANumber();
  const bool known = row.row_class == RowClass::kFinite && std::isfinite(in.g[at]) &&
                     std::isfinite(in.k[at]) && !overflows;
  if (!known) return Unspecified();
  return std::nullopt;
}

void LossSum::Add(const ForwardElements& row) {
  const Element& e = row.logprob;
  nan_ |= e.expect == Expect::kNaN;
  unspecified_ |= e.expect == Expect::kUnspecified;
  infinite_ |= e.expect == Expect::kMinusInf;
  if (e.expect != Expect::kFinite && e.expect != Expect::kVacuous) return;
  sum_ -= e.value;
  magnitudes_ += std::fabs(e.value);
  bound_ += e.bound;
}

Element LossSum::Finish(const Inputs& in, kernel::Reduction reduction, const Arithmetic& target,
                        double radius_ratio) const {
  if (in.counted == 0) {
    return reduction == kernel::Reduction::kMean ? Element{Expect::kEmptyMean, 0, 0, 0} : Zero();
  }
  if (nan_) return NotANumber();
  if (unspecified_) return Unspecified();
  if (infinite_) return {Expect::kPlusInf, kInfinity, 0, 0};
  const double n = kPlanted == OracleDefect::kNoLossSum ? 0 : static_cast<double>(in.n);
  const double log_v = LogOf(in.v);
  double bound = bound_ + Gamma(n, target.u) * (magnitudes_ + bound_) + target.result_underflow;
  // A sum that may overflow fp32 may be infinite, also where the mean would fit.
  if (!(magnitudes_ + std::min(bound, magnitudes_ + log_v * n) <= std::numeric_limits<float>::max())) {
    return Unspecified();
  }
  double value = sum_;
  if (reduction == kernel::Reduction::kMean) {
    const double count = static_cast<double>(in.counted);
    value /= count;
    bound = bound / count + target.loss_division * (std::fabs(value) + bound / count) +
            target.result_underflow;
  }
  return Bounded(value, radius_ratio * bound, bound, std::max({0.5, log_v, std::fabs(value)}));
}

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/finish.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/budget/row.h"
#include "oracle/defect.h"

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/budget/finish.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kColumnStep>;
using Vec = hn::Vec<Doubles>;
constexpr Doubles kD;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));

void FinishGradient(const GradientRow& row, double accumulator, double underflow, double radius_ratio,
                    const Rounding& rounding, bool rounded) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Vec least_range = hn::Set(kD, 4 * (underflow + rounding.eta));
  const Vec largest = hn::Set(kD, rounding.largest);
  std::fill_n(row.expect, row.count, Expect::kFinite);
  for (int64_t j = 0; j < row.count; j += kLanes) {
    const Vec value = hn::LoadU(kD, row.value + j), errors = hn::LoadU(kD, row.bound + j);
    const Vec range = hn::Max(hn::LoadU(kD, row.range + j), least_range);
    const Vec magnitude = hn::Abs(value);
    Vec bound = hn::Add(errors, hn::Set(kD, underflow));
    // 0 * infinity is NaN: the row's budget says nothing, so this bound says nothing either.
    bound = hn::IfThenElse(hn::IsNaN(bound), hn::Set(kD, kInfinity), bound);
    const auto exact = hn::Eq(errors, hn::Zero(kD));
    // A value that may overflow its dtype may be infinite. Where the bound is infinite, the output's
    // range decides.
    const auto fits = hn::Or(exact, hn::And(hn::Le(hn::Add(magnitude, hn::Min(bound, range)), largest),
                                            hn::Le(range, hn::Set(kD, accumulator))));
    if (rounded && kPlanted != OracleDefect::kNoOutputRounding) {
      bound = hn::Add(bound, hn::MulAdd(hn::Set(kD, rounding.u), hn::Add(magnitude, bound),
                                        hn::Set(kD, rounding.eta)));
    }
    bound = hn::IfThenZeroElse(exact, bound);
    hn::StoreU(bound, kD, row.bound + j);
    const auto says =
        hn::And(hn::Lt(bound, range), hn::Lt(hn::Mul(bound, hn::Set(kD, radius_ratio)), range));
    // A NaN among the values makes every comparison false, so it fails this test. A test for `greater`
    // would let it pass.
    if (hn::AllTrue(kD, hn::And(hn::And(fits, says), hn::Eq(value, value)))) continue;
    double v[kLanes], b[kLanes];
    hn::StoreU(value, kD, v);
    hn::StoreU(bound, kD, b);
    alignas(64) double fit[kLanes], say[kLanes];
    hn::StoreU(hn::IfThenElseZero(fits, hn::Set(kD, 1)), kD, fit);
    hn::StoreU(hn::IfThenElseZero(says, hn::Set(kD, 1)), kD, say);
    for (int64_t i = 0; i < std::min(kLanes, row.count - j); ++i) {
      row.expect[j + i] = std::isnan(v[i]) ? Expect::kNaN
                          : fit[i] == 0    ? Expect::kUnspecified
                          : say[i] == 0    ? Expect::kVacuous
                                           : Expect::kFinite;
      if (std::isnan(v[i]) || fit[i] == 0) row.bound[j + i] = 0;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(FinishGradient);

Element Bounded(double value, double radius, double bound, double range) {
  if (std::isnan(value)) return {Expect::kNaN, value, 0, 0};
  const bool vacuous = !(bound < range) || !(radius < range);
  return {vacuous ? Expect::kVacuous : Expect::kFinite, value, radius, bound};
}

void FinishGradient(const GradientRow& row, double accumulator, double underflow, double radius_ratio,
                    const Rounding& rounding, bool rounded) {
  HWY_DYNAMIC_DISPATCH(FinishGradient)(row, accumulator, underflow, radius_ratio, rounding, rounded);
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

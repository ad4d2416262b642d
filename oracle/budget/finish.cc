// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/finish.h"

#include <algorithm>
#include <cmath>

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/budget/finish.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#include "oracle/budget/gradient_bound-inl.h"
#include "oracle/budget/lanes-inl.h"
#include "oracle/defect.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {

void FinishGradient(const GradientRow& row, double limit, const GradientSum& sum) {
  std::fill_n(row.expect, row.count, Expect::kFinite);
  for (int64_t j = 0; j < row.count; j += kLanes) {
    const Lanes value = Load(row.value + j);
    const GradientElement<Lanes> e =
        GradientElementOf<Lanes>(sum, value, Load(row.bound + j), Load(row.range + j), limit);
    Store(e.bound, row.bound + j);
    // A NaN among the values makes every comparison false, so it fails this test. A test for `greater`
    // would let it pass.
    if (All(e.fits & e.says & (value == value))) continue;
    double v[kLanes], fit[kLanes], say[kLanes];
    Store(value, v);
    Store(ZeroUnless(e.fits, 1), fit);
    Store(ZeroUnless(e.says, 1), say);
    for (int64_t i = 0; i < std::min(kLanes, row.count - j); ++i) {
      row.expect[j + i] = std::isnan(v[i]) ? Expect::kNaN
                          : std::isinf(v[i])
                              ? InfiniteElement(v[i], row.range[j + i], row.infinite_limit)
                          : fit[i] == 0 ? Expect::kUnspecified
                          : say[i] == 0 ? Expect::kVacuous
                                        : Expect::kFinite;
      if (!std::isfinite(v[i]) || fit[i] == 0) row.bound[j + i] = 0;
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

GradientSum GradientSumOf(Output output, kernel::DType dtype, int64_t length, const Arithmetic& target,
                          const RadiusRatios& ratios) {
  const bool hidden = output == Output::kGradHidden;
  const double chunks = hidden ? target.chunks_hidden : target.chunks_weight;
  // What one chunk loses by underflow is rounded with it in every later addition in 16 bits.
  const double carried = chunks > 0 ? 1 + Gamma(chunks + 1, target.accumulator.u) : 1;
  // Chunks and stretches cut the columns in at most so many sums.
  const double sums = std::max(1.0, chunks) + (hidden ? target.stretches_hidden - 1 : 0);
  const double lost = static_cast<double>(length + 1) * target.eta + sums * target.partial_underflow;
  const double underflow = carried * lost + std::max(2.0, carried) * chunks * target.accumulator.eta;
  Rounding rounding = RoundingOf(dtype);
  bool rounded = dtype != kernel::DType::kF32;
  const Rounding& declared = target.Of(output);
  if (declared.u > 0 && !rounded) {
    rounding = declared;
  } else if (declared.u > 0 && declared.u != rounding.u) {  // once to each dtype
    const double rounded_up = kPlanted == OracleDefect::kOneRangeOfTwo ? 1 : 1 + declared.u;
    rounding = {declared.u + rounding.u + declared.u * rounding.u,
                declared.eta * (1 + rounding.u) + rounding.eta,
                std::min(declared.largest, rounding.largest / rounded_up)};
  }
  rounded = rounded || declared.u > 0;
  return {underflow, hidden ? ratios.grad_hidden : ratios.grad_weight, rounding, rounded,
          target.accumulator.largest};
}

double GradientGain(Output output, const Arithmetic& target) {
  const bool hidden = output == Output::kGradHidden;
  const double dot = hidden ? target.dot_grad_hidden : target.dot_grad_weight;
  const double chunks = hidden ? target.chunks_hidden : target.chunks_weight;
  return chunks > 0 ? (1 + dot) * (1 + Gamma(chunks + 1, target.accumulator.u)) - 1 : dot;
}

void FinishGradient(const GradientRow& row, double limit, const GradientSum& sum) {
  HWY_DYNAMIC_DISPATCH(FinishGradient)(row, limit, sum);
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

// SPDX-License-Identifier: Apache-2.0

#include "oracle/verdict/row.h"

#include <cmath>
#include <limits>

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/verdict/row.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns whether every element of [begin, end) passes; end - begin is a multiple of the lanes of d.
template <class D>
HWY_INLINE bool Scan(D d, const ElementRow& row, const double* got, int64_t begin, int64_t end,
                     TightestPass* tightest) {
  const auto zero = hn::Zero(d), ratio = hn::Set(d, row.radius_ratio);
  const auto largest = hn::Set(d, std::numeric_limits<double>::max());
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  for (int64_t j = begin; j < end; j += kLanes) {
    const auto bound = hn::LoadU(d, row.bound + j);
    const auto error = hn::Abs(hn::Sub(hn::LoadU(d, got + j), hn::LoadU(d, row.value + j)));
    const auto excess = hn::Sub(error, hn::Mul(ratio, bound));
    // Every comparison is false for a NaN.
    const auto pass =
        hn::And(hn::And(hn::Le(excess, bound), hn::Ge(bound, zero)),
                hn::And(hn::Le(hn::Abs(hn::LoadU(d, got + j)), largest), hn::Le(bound, largest)));
    if (!hn::AllTrue(d, pass)) return false;
    if (hn::AllFalse(d, hn::Gt(excess, hn::Mul(hn::Set(d, tightest->tightness), bound)))) continue;
    for (int64_t i = j; i < j + kLanes; ++i) {
      const double over = std::fabs(got[i] - row.value[i]) - row.radius_ratio * row.bound[i];
      if (over <= 0 || !(over / row.bound[i] > tightest->tightness)) continue;
      *tightest = {over / row.bound[i], i};
    }
  }
  return true;
}

bool ScanRow(const ElementRow& row, const double* got, TightestPass* tightest) {
  const hn::CappedTag<double, 8> wide;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<double, 8>()));
  const int64_t whole = row.count / kLanes * kLanes;
  return Scan(wide, row, got, 0, whole, tightest) &&
         Scan(hn::CappedTag<double, 1>(), row, got, whole, row.count, tightest);
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(ScanRow);

std::optional<TightestPass> JudgeRowOfPasses(const ElementRow& row, const double* got) {
  uint8_t other = 0;
  for (int64_t j = 0; j < row.count; ++j) {
    other = static_cast<uint8_t>(
        other | (static_cast<uint8_t>(row.expect[j]) ^ static_cast<uint8_t>(Expect::kFinite)));
  }
  if (other != 0 || std::isnan(row.radius_ratio)) return std::nullopt;
  TightestPass tightest;
  if (!HWY_DYNAMIC_DISPATCH(ScanRow)(row, got, &tightest)) return std::nullopt;
  return tightest;
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

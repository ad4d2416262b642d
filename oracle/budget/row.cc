// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/row.h"

#include <cmath>
#include <limits>

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/budget/row.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Doubles = hn::CappedTag<double, kColumnStep>;
constexpr Doubles kD;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));
using Vec = hn::Vec<Doubles>;

void FindExtremes(const Columns& c, Extremes* out) {
  const Vec infinity = hn::Set(kD, kInfinity);
  Vec max = hn::Neg(infinity), min = infinity, at = hn::Zero(kD), max_abs = hn::Zero(kD),
      index = hn::Iota(kD, 0);
  auto bad = hn::IsNaN(max);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const Vec z = hn::LoadU(kD, c.z + i), s = hn::LoadU(kD, c.abs_sum + i);
    bad = hn::Or(bad, hn::Or(hn::IsNaN(z), hn::Eq(z, infinity)));
    const auto larger = hn::Gt(z, max);
    max = hn::IfThenElse(larger, z, max);
    at = hn::IfThenElse(larger, index, at);
    index = hn::Add(index, hn::Set(kD, static_cast<double>(kLanes)));
    // A NaN in S must count as beyond every limit. A maximum would drop it.
    const Vec limit = hn::IfThenElse(hn::IsNaN(s), infinity, s);
    const auto present = hn::Gt(z, hn::Neg(infinity));
    min = hn::Min(min, hn::IfThenElse(present, z, infinity));
    max_abs = hn::Max(max_abs, hn::IfThenElseZero(present, limit));
  }
  double value[kLanes], position[kLanes];
  hn::StoreU(max, kD, value);
  hn::StoreU(at, kD, position);
  int64_t best = 0;
  for (int64_t j = 1; j < kLanes; ++j) {
    const bool first = value[j] == value[best] && position[j] < position[best];
    if (value[j] > value[best] || first) best = j;
  }
  out->max = value[best];
  out->argmax = static_cast<int64_t>(position[best]);
  out->min = hn::GetLane(hn::MinOfLanes(kD, min));
  out->nan = !hn::AllFalse(kD, bad);
  out->max_abs = hn::GetLane(hn::MaxOfLanes(kD, max_abs));
}

void SumWeights(const Columns& c, double max, double inverse, int64_t argmax, Weights* out) {
  Vec rest = hn::Zero(kD), weighted = hn::Zero(kD), index = hn::Iota(kD, 0);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const Vec t = hn::Mul(hn::Sub(hn::Set(kD, max), hn::LoadU(kD, c.z + i)), hn::Set(kD, inverse));
    // A logit of -inf has weight 0, and so has every column whose exponential underflows.
    const auto counts = hn::AndNot(hn::Eq(index, hn::Set(kD, static_cast<double>(argmax))),
                                   hn::Lt(t, hn::Set(kD, 746.0)));
    const Vec e = hn::IfThenElseZero(counts, hn::Exp(kD, hn::Neg(t)));
    rest = hn::Add(rest, e);
    weighted = hn::Add(weighted, hn::IfThenElseZero(counts, hn::Mul(e, t)));
    index = hn::Add(index, hn::Set(kD, static_cast<double>(kLanes)));
  }
  out->rest = hn::GetLane(hn::SumOfLanes(kD, rest));
  out->weighted = hn::GetLane(hn::SumOfLanes(kD, weighted));
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(FindExtremes);
HWY_EXPORT(SumWeights);

Row BeginRow(const Extremes& extremes, int64_t vocab, double temperature, int64_t label) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Row row;
  row.temperature = temperature;
  row.inverse = 1 / temperature;
  row.vocab = vocab;
  row.label = label;
  if (extremes.nan || extremes.max == -kInfinity) {
    row.row_class = RowClass::kNaN;
    return row;
  }
  const bool inside = extremes.max_abs * (temperature < 1 ? 1 / temperature : 1.0) <= 0x1p126;
  if (!inside || temperature < 0x1p-100 || temperature > 0x1p100) {
    row.row_class = RowClass::kUnspecified;
    return row;
  }
  row.argmax = extremes.argmax;
  row.max_z = extremes.max;
  row.max_x = row.max_z * row.inverse;
  row.max_abs_x = std::fmax(std::fabs(extremes.max), std::fabs(extremes.min)) * row.inverse;
  return row;
}

void FinishRow(const Weights& weights, double label_z, Row* out) {
  Row& row = *out;
  row.rest = weights.rest;
  row.inverse_s = 1 / (1 + weights.rest);
  row.log_s = std::log1p(weights.rest);
  row.lse = row.max_x + row.log_s;
  row.entropy = row.log_s + weights.weighted * row.inverse_s;
  row.label_z = label_z;
  row.label_t = (row.max_z - row.label_z) * row.inverse;
  row.logprob = 0 - (row.label_t + row.log_s);
  row.label_complement =
      row.label == row.argmax ? row.rest * row.inverse_s : 1 - std::exp(-row.label_t) * row.inverse_s;
}

Row ComputeRow(const Columns& all, double temperature, int64_t label) {
  Extremes extremes;
  HWY_DYNAMIC_DISPATCH(FindExtremes)(all, &extremes);
  Row row = BeginRow(extremes, all.count, temperature, label);
  if (row.row_class != RowClass::kFinite) return row;
  Weights weights;
  HWY_DYNAMIC_DISPATCH(SumWeights)(all, row.max_z, row.inverse, row.argmax, &weights);
  FinishRow(weights, all.z[label], &row);
  return row;
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

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

#include "oracle/budget/forward_bound-inl.h"
#include "oracle/budget/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {

void FindExtremes(const Columns& c, Extremes* out) {
  Lanes max = -kInfinite, min = kInfinite, at = 0, max_abs = 0, index = CountFrom(0);
  Truth bad = IsNaN(max);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    const Lanes z = Load(c.z + i), s = Load(c.abs_sum + i);
    bad = bad | IsNaN(z) | (z == kInfinite);
    const Truth larger = z > max;
    max = Select(larger, z, max);
    at = Select(larger, index, at);
    index = index + static_cast<double>(kLanes);
    const Truth present = z > -kInfinite;
    min = Min(min, Select(present, z, kInfinite));
    // A NaN in S must count as beyond every limit. A maximum would drop it.
    max_abs = Max(max_abs, ZeroUnless(present, Select(IsNaN(s), kInfinite, s)));
  }
  double value[kLanes], position[kLanes];
  Store(max, value);
  Store(at, position);
  int64_t best = 0;
  for (int64_t j = 1; j < kLanes; ++j) {
    const bool first = value[j] == value[best] && position[j] < position[best];
    if (value[j] > value[best] || first) best = j;
  }
  *out = {value[best], static_cast<int64_t>(position[best]), Any(bad), Least(min), Largest(max_abs)};
}

void SumWeights(const Columns& c, double max, double inverse, int64_t argmax, Weights* out) {
  struct {
    Lanes rest, weighted;
  } sum = {0, 0};
  Lanes index = CountFrom(0);
  for (int64_t i = 0; i < c.count; i += kLanes) {
    AddWeight(Load(c.z + i), index == static_cast<double>(argmax), max, inverse, &sum);
    index = index + static_cast<double>(kLanes);
  }
  *out = {Sum(sum.rest), Sum(sum.weighted)};
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(FindExtremes);
HWY_EXPORT(SumWeights);

Row BeginRow(const Extremes& extremes, int64_t vocab, double temperature, int64_t label, bool scaled) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Row row;
  row.temperature = temperature;
  row.inverse = 1 / temperature;
  row.logit_scale = scaled ? 1 : row.inverse;
  row.max_sum = extremes.max_abs;
  row.vocab = vocab;
  row.label = label;
  if (extremes.nan || extremes.max == -kInfinity) {
    row.row_class = RowClass::kNaN;
    row.empty = !extremes.nan;
    return row;
  }
  const bool inside = extremes.max_abs * (temperature < 1 ? 1 / temperature : 1.0) <= 0x1p126;
  if (!inside || temperature < 0x1p-100 || temperature > 0x1p100) {
    row.row_class = RowClass::kUnspecified;
    return row;
  }
  row.argmax = extremes.argmax;
  row.max_z = extremes.max;
  row.max_x = row.max_z * row.logit_scale;
  row.max_abs_x = std::fmax(std::fabs(extremes.max), std::fabs(extremes.min)) * row.logit_scale;
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
  row.label_t = (row.max_z - row.label_z) * row.logit_scale;
  row.logprob = 0 - (row.label_t + row.log_s);
  row.label_complement =
      row.label == row.argmax ? row.rest * row.inverse_s : 1 - std::exp(-row.label_t) * row.inverse_s;
}

Row ComputeRow(const Columns& all, double temperature, int64_t label, bool scaled) {
  Extremes extremes;
  HWY_DYNAMIC_DISPATCH(FindExtremes)(all, &extremes);
  Row row = BeginRow(extremes, all.count, temperature, label, scaled);
  if (row.row_class != RowClass::kFinite) return row;
  Weights weights;
  HWY_DYNAMIC_DISPATCH(SumWeights)(all, row.max_z, row.logit_scale, row.argmax, &weights);
  FinishRow(weights, all.z[label], &row);
  return row;
}

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/within.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/recipe/parts.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// The second arguments of Mix for choices by a recipe's seed.
enum Choice : uint64_t { kChooseDType = 0x7769'0000, kChooseReduction, kChooseLarge };

template <class Value>
Value Chosen(const std::vector<Value>& values, Value value, uint64_t bits) {
  return std::find(values.begin(), values.end(), value) != values.end() ? value
                                                                        : values[bits % values.size()];
}

bool Ignores(Labels labels) {
  switch (labels) {
    case Labels::kSomeIgnored:
    case Labels::kAllIgnored:
    case Labels::kIgnoredNaN:
    case Labels::kOneValid:
    case Labels::kFarIgnored:
    case Labels::kPrompts:
    case Labels::kPadded:
    case Labels::kPacked:
      return true;
    default:
      return false;
  }
}

void KeepTypes(const Capabilities& can, Recipe* r) {
  const DType dtype = Chosen(can.dtypes, r->dtype, Mix(r->seed, kChooseDType));
  if (dtype != r->dtype && dtype == DType::kF16) r->exp = HalfExp(r->values, r->exp);
  r->dtype = dtype;
  r->hidden_major = r->hidden_major ? can.hidden_major : !can.vocab_major;
  r->label_dtype =
      (r->label_dtype == DType::kI32 ? can.label_int32 : !can.label_int64) ? DType::kI32 : DType::kI64;
  r->reduction = Chosen(can.reductions, r->reduction, Mix(r->seed, kChooseReduction));
}

void KeepValues(const Capabilities& can, Recipe* r) {
  const bool bad_temperature = r->special == Special::kTemperature;
  if (!can.special_values ||
      (bad_temperature && (!can.invalid_labels || can.temperature != TemperatureSupport::kRow))) {
    r->special = Special::kNone;
  }
  if (can.temperature == TemperatureSupport::kNone) r->temperature = 1;
  if (can.temperature != TemperatureSupport::kRow) {
    r->temperature_per_row = false;
    r->temperature_spread = 1;
  }
  if (!can.special_values && r->labels == Labels::kIgnoredNaN) r->labels = Labels::kSomeIgnored;
  if (!can.invalid_labels && r->labels == Labels::kInvalid) r->labels = Labels::kRandom;
  if (!can.ignore_index && Ignores(r->labels)) r->labels = Labels::kRandom;
  // The gradient of an output that is lacking says nothing: logprob takes it over.
  if (!can.entropy && r->grads == Grads::kNone) std::swap(r->grads, r->entropy_grads);
}

void KeepLayout(const Capabilities& can, Recipe* r) {
  if (!can.strided_inputs) {
    r->pad = 0;
    r->rows = Rows::kForward;
    r->wide = Wide::kNone;
    r->label_stride = r->temperature_stride = r->output_stride = 1;
    r->gradient_step = r->single_stride = 1;
    r->grad_stride = std::min<int64_t>(r->grad_stride, 1);
  }
  if (can.row_alignment > 1) r->gradient_step = 1;
  // The first element of a vector whose rows are reversed lies anywhere.
  const bool reverses =
      can.negative_strides && can.base_alignment <= static_cast<int64_t>(kernel::SizeOf(r->dtype));
  if (!reverses && r->rows == Rows::kReversed) r->rows = Rows::kForward;
  if (!can.zero_stride_grads) r->grad_stride = std::max<int64_t>(r->grad_stride, 1);
  // Elements have two bytes or more.
  const int64_t base = std::max<int64_t>(1, can.base_alignment / 2);
  r->offset = (r->offset + base - 1) / base * base;
}

// Returns the largest H at which a case of n rows and v columns costs no more than kMostKept.
int64_t MostDepth(int64_t n, int64_t v) {
  const double without = CostOf(n, v, 0);
  return static_cast<int64_t>(std::max(0.0, kMostKept - without) / (CostOf(n, v, 1) - without));
}

// Cuts H to the largest multiple of `depth` at which a case of n rows costs no more than kMostKept.
// Returns false if there is none.
bool CutDepth(int64_t n, int64_t depth, Recipe* r) {
  const int64_t most = MostDepth(n, r->v) / depth * depth;
  if (most < depth) return false;
  r->h = std::min(r->h, most);
  return true;
}

// Returns the multiple of `of` on the far side of the nearest multiple of 16.
int64_t Multiple(int64_t extent, int64_t of) {
  constexpr int64_t kTile = 16;
  if (of == 1 || extent % of == 0) return extent;
  const int64_t below = extent / of * of;
  return below > 0 && extent % kTile >= kTile / 2 ? below : below + of;
}

// Cuts V of a case that grew beyond kMostGrown. One draw in 800 has kLargeVocabulary or more: there H
// is cut, and V only where the least H costs more than kMostKept.
void CutVocabulary(const Capabilities& can, const Recipe& drawn, int64_t columns, int64_t depth,
                   Recipe* r) {
  const int64_t n = std::min(r->n, std::max(can.rows_multiple, drawn.n));
  const double cost = CostOf(n, r->v, r->h);
  if (cost <= kMostGrown || cost <= 2 * CostOf(drawn.n, drawn.v, drawn.h)) return;
  constexpr int64_t kFewColumns = 2'000;
  const bool large = r->v >= kLargeVocabulary;
  const bool keep = large || (r->v > kFewColumns && Mix(r->seed, kChooseLarge) % kLargeEvery == 0);
  if (keep && cost <= kMostKept) return;
  if (large && CutDepth(n, depth, r)) return;
  const auto fewer = static_cast<int64_t>(static_cast<double>(r->v) * kMostGrown / cost);
  r->v = std::max(columns, std::min(r->v, fewer) / columns * columns);
}

// What N, V and H are multiples of.
struct Multiples {
  int64_t rows, columns, depth;
};
Multiples MultiplesOf(const Capabilities& can, const Recipe& r) {
  // Rows that cannot be padded have an aligned length.
  const int64_t bytes = static_cast<int64_t>(kernel::SizeOf(r.dtype));
  const int64_t row = can.strided_inputs ? 1 : std::max<int64_t>(1, can.row_alignment / bytes);
  return {can.rows_multiple, std::lcm(can.vocab_multiple, r.hidden_major ? row : 1),
          std::lcm(can.hidden_multiple, row)};
}

void KeepMultiples(const Capabilities& can, const Multiples& of, Recipe* r) {
  r->v = Multiple(r->v, of.columns);
  r->h = Multiple(r->h, of.depth);
  r->n = Multiple(r->n, of.rows);
  if (!can.empty_extents) {
    r->v = std::max(r->v, of.columns);
    r->h = std::max(r->h, of.depth);
    r->n = std::max(r->n, of.rows);
  }
  if (!can.ignore_index && r->v == 0) r->v = of.columns;  // without a vocabulary every row is ignored
}

void KeepExtents(const Capabilities& can, Recipe* r) {
  const Recipe drawn = *r;
  const Multiples of = MultiplesOf(can, *r);
  KeepMultiples(can, of, r);
  if (r->n == drawn.n && r->v == drawn.v && r->h == drawn.h) return;
  CutVocabulary(can, drawn, of.columns, of.depth, r);
  // N is cut as the regimes do, to the cost that the case had or to the usual one.
  const int64_t cost = std::max(kMaxCost, drawn.n * drawn.v * drawn.h);
  const int64_t each = std::max<int64_t>(1, r->v * r->h);
  if (r->n > can.rows_multiple && r->n * each > cost) {
    r->n = std::max(can.rows_multiple, cost / each / can.rows_multiple * can.rows_multiple);
  }
  // Deeper than kManyLogitsHidden a problem's logits are limited like other matrices.
  if (r->h > kManyLogitsHidden && r->n * r->v > kMaxElements) {
    const int64_t rows = kMaxElements / 16 / std::max<int64_t>(1, r->v);
    r->n = std::max(can.rows_multiple, rows / can.rows_multiple * can.rows_multiple);
  }
}

}  // namespace

double CostOf(int64_t n, int64_t v, int64_t h) {
  const auto logits = static_cast<double>(n * v), weights = static_cast<double>(v * h);
  return logits * static_cast<double>(5 * h + 40) + 20 * weights;
}

Recipe ShapeWithin(const Capabilities& can, Recipe r) {
  const Multiples of = MultiplesOf(can, r);
  KeepMultiples(can, of, &r);
  if (CostOf(r.n, r.v, r.h) > kMostKept && !CutDepth(r.n, of.depth, &r)) {
    r.h = of.depth;
    const double each = CostOf(r.n, 1, r.h);
    r.v = std::max(of.columns, static_cast<int64_t>(kMostKept / each) / of.columns * of.columns);
  }
  return r;
}

Recipe KeepWithin(const Capabilities& can, Recipe r) {
  KeepTypes(can, &r);
  KeepValues(can, &r);
  KeepLayout(can, &r);
  KeepExtents(can, &r);
  KeepSensible(&r);
  return r;
}

bool Reaches(const Capabilities& can, std::string_view regime) {
  constexpr int kDraws = 32;
  const auto fixes = [&](Factor factor) { return RegimeFixes(regime, factor); };
  int kept = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const Recipe drawn = DrawRecipe(0, i, regime), r = KeepWithin(can, drawn);
    const bool labels = !fixes(Factor::kLabels) || r.labels == drawn.labels;
    const bool temperature =
        !fixes(Factor::kTemperature) ||
        (r.temperature == drawn.temperature && r.temperature_per_row == drawn.temperature_per_row);
    const bool grads =
        !fixes(Factor::kGrads) || (r.grads == drawn.grads && r.entropy_grads == drawn.entropy_grads);
    const bool layout =
        !fixes(Factor::kLayout) ||
        (r.pad == drawn.pad && r.rows == drawn.rows && r.wide == drawn.wide &&
         r.offset == drawn.offset && r.label_stride == drawn.label_stride &&
         r.temperature_stride == drawn.temperature_stride && r.output_stride == drawn.output_stride &&
         r.gradient_step == drawn.gradient_step && r.single_stride == drawn.single_stride);
    kept += labels && temperature && grads && layout && r.special == drawn.special ? 1 : 0;
  }
  return kept > kDraws / 4;
}

bool HasLevel(const Capabilities& can, Factor factor, int level) {
  if (factor == Factor::kFamily) return true;
  if (factor == Factor::kRegime) return Reaches(can, Regimes()[static_cast<size_t>(level)].name);
  Recipe r{.n = 4, .v = 64, .h = 16};
  SetLevel(factor, level, &r);
  KeepSensible(&r);
  const Recipe kept = KeepWithin(can, r);
  switch (factor) {
    case Factor::kDType:
      return kept.dtype == r.dtype;
    case Factor::kLabels:
      return kept.labels == r.labels;
    case Factor::kReduction:
      return kept.reduction == r.reduction;
    case Factor::kGrads:
      return kept.grads == r.grads && kept.entropy_grads == r.entropy_grads;
    case Factor::kTemperature:
      return kept.temperature == r.temperature && kept.temperature_per_row == r.temperature_per_row;
    default:
      return kept.hidden_major == r.hidden_major && kept.pad == r.pad && kept.offset == r.offset &&
             kept.rows == r.rows && kept.label_stride == r.label_stride;
  }
}

}  // namespace plumbline::fuzz

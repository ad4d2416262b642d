// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/device_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fuzz/recipe/expand/values.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

int FloorLog2(uint64_t n) { return static_cast<int>(std::bit_width(n)) - 1; }

PhiloxBlock PlanOf(const Recipe& r) { return StreamOf(r, Purpose::kPlan).At(0); }

// The word for its kind of values in a recipe's line.
std::string ValuesWord(const Recipe& r) {
  const std::string line = Format(r);
  const size_t at = line.find(" values=") + 1;
  return line.substr(at, line.find(' ', at) - at);
}

void PlanOffset(const Recipe& r, FillPlan* p) {
  const PhiloxBlock plan = PlanOf(r);
  p->scale = (plan[0] & 1) != 0 ? -1 : 1;
  const int exp = HoldExp(r, 0, 23, 15);
  p->count = std::min<int64_t>(3, r.h - 1);
  const int bits = std::clamp(exp - 1, 0, 7);
  p->parts[0] = Scale(1.0, exp);
  p->parts[1] = Scale(static_cast<double>(Below(plan[1], int64_t{1} << bits)), exp - 1 - bits);
  p->parts[2] = static_cast<double>(Below(plan[2], int64_t{1} << bits));
}

void PlanConfident(const Recipe& r, FillPlan* p, std::vector<int64_t>* leading) {
  const int exp = HoldExp(r, 0, 100, 100);
  double others = 0;
  if (r.v > 1) {
    const int floor = FloorLog2(static_cast<uint64_t>(r.v - 1));
    others = floor + (Scale(static_cast<double>(r.v - 1), -floor) - 1);
  }
  p->scale = std::floor(4 * kLn2 * (exp + others) + 0.5) / 4;
  p->count = std::clamp<int64_t>(r.n, 1, r.h);
  for (int64_t d = 0; d < p->count; ++d) {
    leading->push_back(Below(StreamOf(r, Purpose::kPlan).At(d)[0], r.v));
  }
}

void PlanLattice(const Recipe& r, FillPlan* p) {
  const int exp = HoldExp(r, r.dtype == kernel::DType::kF16 ? -20 : -60, 60, 12);
  const int precision = std::min(PrecisionOf(r.dtype), 12);
  const int bits = 1 + static_cast<int>(Below(PlanOf(r)[0], precision));
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>((int64_t{1} << 24) / r.h)));
  p->limit = std::min((int64_t{1} << bits) - 1, root);
  const int64_t fourth = p->limit * p->limit * p->limit * p->limit;
  const auto variance = static_cast<uint64_t>(std::max<int64_t>(fourth * r.h / 9, 1));
  const int lattice = exp - FloorLog2(variance) / 2;
  p->hidden_exp = lattice >= 0 ? lattice / 2 : -((-lattice + 1) / 2);
  p->weight_exp = lattice - p->hidden_exp;
}

void PlanTies(const Recipe& r, FillPlan* p) {
  const int exp = HoldExp(r, 0, 14, 14);
  const PhiloxBlock plan = PlanOf(r);
  p->tile = std::min(int64_t{16} << Below(plan[0], 5), std::max<int64_t>(r.v / 2, 1));
  p->edge = p->tile * (1 + Below(plan[1], std::max<int64_t>((r.v - 1) / p->tile, 1)));
  p->style = Below(plan[2], 3);
  p->top = ((plan[3] & 1) != 0 ? -8 : 8) * (int64_t{1} << exp);
  p->places = (exp + 5 + 6) / 7;
  p->count = std::min(p->places, r.h);
}

void PlanMassive(const Recipe& r, FillPlan* p) {
  const PhiloxBlock plan = PlanOf(r);
  const int64_t count = 1 + Below(plan[3], 3);
  for (size_t k = 0; k < 3; ++k) p->channels[k] = Below(plan[k % static_cast<size_t>(count)], r.h);
  p->weight_exp = HoldExp(r, -4, 6, 4) - 12;
}

void PlanSmallLse(const Recipe& r, FillPlan* p) {
  const PhiloxBlock plan = PlanOf(r);
  p->scale = Scale(1.0, HoldExp(r, 0, 60, 14));
  const int64_t near = 1 + Below(plan[3], 3);
  for (int64_t k = 0; k < near; ++k) p->channels[k] = Below(plan[static_cast<size_t>(k)], r.v);
}

std::string WhyNotValues(const Recipe& r) {
  const std::string values = ValuesWord(r);
  switch (r.values) {
    case Values::kGaussian:
    case Values::kLattice:
    case Values::kMassive:
      return r.h > 0 && r.v > 0 ? "" : values + ": needs H and V above 0 on a device";
    case Values::kOffset:
    case Values::kConfident:
    case Values::kTies:
    case Values::kSmallLse:
    case Values::kAllNegative:
      return r.h > 1 && r.v > 0 ? "" : values + ": needs H above 1 and V above 0 on a device";
    default:
      return values +
             ": has no form on a device (gaussian, small-lse, all-negative, offset, confident, "
             "lattice, ties and massive have)";
  }
}

}  // namespace

std::string WhyNotOnDevice(const Recipe& r) {
  if (std::string why = WhyNotValues(r); !why.empty()) return why;
  if (r.special != Special::kNone) return "special: has no form on a device";
  if (r.wide != Wide::kNone) return "wide: has no form on a device";
  if (r.rows == Rows::kReversed) return "rows=reversed: has no form on a device";
  if (r.rows == Rows::kBroadcast) return "rows=broadcast: has no form on a device";
  if (r.label_stride == 0) return "label_stride=0: has no form on a device";
  if (r.labels == Labels::kArgmin) return "labels=argmin: has no form on a device";
  if (r.labels != Labels::kArgmax) return {};
  if (r.values != Values::kConfident) return "labels=argmax: on a device of values=confident alone";
  // A column that leads k dimensions has k - 1 of its leads scaled by +-1/64 in the row that belongs to
  // one of them. Every other column has its leads scaled so, plus noise of at most 1/2.
  std::vector<int64_t> leading;
  const FillPlan plan = PlanFill(r, &leading);
  std::sort(leading.begin(), leading.end());
  int64_t most = 1, run = 1;
  for (size_t d = 1; d < leading.size(); ++d) {
    run = leading[d] == leading[d - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  const double margin = plan.scale * (1 - static_cast<double>(2 * most) / 64) - 1;
  return margin > 0 ? "" : "labels=argmax: one column leads " + std::to_string(most) + " dimensions";
}

std::vector<int64_t> LeadingLabels(const Recipe& r) {
  std::vector<int64_t> leading, labels;
  const FillPlan plan = PlanFill(r, &leading);
  for (int64_t i = 0; i < r.n; ++i) labels.push_back(leading[static_cast<size_t>(i % plan.count)]);
  return labels;
}

FillPlan PlanFill(const Recipe& r, std::vector<int64_t>* leading) {
  FillPlan p;
  p.values = r.values;
  p.dtype = r.dtype;
  p.seed = r.seed;
  p.n = r.n;
  p.v = r.v;
  p.h = r.h;
  p.largest = LargestOf(r.dtype);
  p.fp16 = r.dtype == kernel::DType::kF16;
  leading->clear();
  switch (r.values) {
    case Values::kGaussian:
      p.scale = Scale(1 / std::sqrt(static_cast<double>(r.h)), HoldExp(r, -100, 100, 10));
      break;
    case Values::kSmallLse:
      PlanSmallLse(r, &p);
      break;
    case Values::kAllNegative:
      p.scale = Scale(1.0, HoldExp(r, -20, 100, 14));
      break;
    case Values::kOffset:
      PlanOffset(r, &p);
      break;
    case Values::kConfident:
      PlanConfident(r, &p, leading);
      break;
    case Values::kLattice:
      PlanLattice(r, &p);
      break;
    case Values::kTies:
      PlanTies(r, &p);
      break;
    default:
      PlanMassive(r, &p);
  }
  return p;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/device_values.h"

#include <algorithm>

#include "fuzz/recipe/expand/kinds.h"

namespace plumbline::fuzz {
namespace {

// The word for its kind of values in a recipe's line.
std::string ValuesWord(const Recipe& r) {
  const std::string line = Format(r);
  const size_t at = line.find(" values=") + 1;
  return line.substr(at, line.find(' ', at) - at);
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
  const Confident kind(r);
  std::vector<int64_t> leading;
  for (int64_t d = 0; d < kind.leaders; ++d) leading.push_back(kind.Leading(d));
  std::sort(leading.begin(), leading.end());
  int64_t most = 1, run = 1;
  for (size_t d = 1; d < leading.size(); ++d) {
    run = leading[d] == leading[d - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  const double margin = kind.lead * (1 - static_cast<double>(2 * most) / 64) - 1;
  return margin > 0 ? "" : "labels=argmax: one column leads " + std::to_string(most) + " dimensions";
}

std::vector<int64_t> LeadingLabels(const Recipe& r) {
  const Confident kind(r);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < r.n; ++i) labels.push_back(kind.Leading(i % kind.leaders));
  return labels;
}

}  // namespace plumbline::fuzz

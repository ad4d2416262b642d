// SPDX-License-Identifier: Apache-2.0
//
// Tests the part of a device's expansion that needs no device. device_case_test.cc compares the values
// that a device makes.

#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/expand/values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace plumbline::fuzz {
namespace {

// Fails if a refusal does not name what is refused.
TEST(DeviceValues, RefusalsNameTheKey) {
  const auto why = [](void (*change)(Recipe*)) {
    Recipe r;
    r.v = 100;
    r.h = 8;
    change(&r);
    return WhyNotOnDevice(r);
  };
  EXPECT_EQ(why([](Recipe*) {}), "");
  EXPECT_TRUE(why([](Recipe* r) { r->values = Values::kSwallow; }).starts_with("values=swallow"));
  EXPECT_TRUE(why([](Recipe* r) { r->labels = Labels::kArgmax; }).starts_with("labels=argmax"));
  EXPECT_TRUE(why([](Recipe* r) { r->labels = Labels::kArgmin; }).starts_with("labels=argmin"));
  EXPECT_TRUE(why([](Recipe* r) { r->special = Special::kMinusInf; }).starts_with("special"));
  EXPECT_TRUE(why([](Recipe* r) { r->rows = Rows::kReversed; }).starts_with("rows=reversed"));
  EXPECT_TRUE(why([](Recipe* r) { r->wide = Wide::kWeight; }).starts_with("wide"));
}

// Fails if the margin is too wide: labels of leading columns must be those that Argmaxes finds.
TEST(DeviceValues, LeadingColumnsAreTheLargestLogits) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Recipe r;
    r.seed = seed;
    r.n = 40;
    r.v = 300;
    r.h = seed % 2 == 0 ? 64 : 24;
    r.values = Values::kConfident;
    r.exp = static_cast<int>(seed);
    r.labels = Labels::kArgmax;
    if (!WhyNotOnDevice(r).empty()) continue;
    const OwnedProblem expanded = Expand(r);
    const std::vector<int64_t> leading = LeadingLabels(r);
    for (int64_t i = 0; i < r.n; ++i) {
      EXPECT_EQ(leading[static_cast<size_t>(i)], expanded.labels.GetInt(i))
          << Format(r) << " row " << i;
    }
    ++checked;
  }
  EXPECT_GT(checked, 10);
}

// Fails if an element that a thread makes alone differs from the one that a walk along its row makes,
// or if the columns that a device draws one by one are not those of the host's table.
TEST(DeviceValues, ElementsMadeAloneAreThoseOfTheRow) {
  int kinds = 0;
  for (const Values values :
       {Values::kGaussian, Values::kSmallLse, Values::kAllNegative, Values::kOffset, Values::kConfident,
        Values::kLattice, Values::kTies, Values::kMassive}) {
    for (const kernel::DType dtype : {kernel::DType::kBf16, kernel::DType::kF16, kernel::DType::kF32}) {
      Recipe r;
      r.seed = 77 + static_cast<uint64_t>(values);
      r.dtype = dtype;
      r.n = 7;
      r.v = 90;
      r.h = 71;
      r.values = values;
      r.exp = 5;
      ASSERT_EQ(WhyNotOnDevice(r), "");
      const OwnedProblem expanded = Expand(r);
      HostTensor hidden = HostTensor::Zeros(dtype, {r.n, r.h});
      HostTensor weight = HostTensor::Zeros(dtype, {r.v, r.h});
      VisitKind(r, [&](const auto& kind) {
        ++kinds;
        Fill(&hidden, [&](int64_t i) {
          return [&, i](int64_t d) { return kind.template Hidden<BitsOfOneElement>(i)(d); };
        });
        Fill(&weight, [&](int64_t v) {
          return [&, v](int64_t d) { return kind.template Weight<BitsOfOneElement>(v)(d); };
        });
      });
      EXPECT_EQ(hidden, expanded.hidden) << Format(r);
      EXPECT_EQ(weight, expanded.weight) << Format(r);
    }
  }
  EXPECT_EQ(kinds, 8 * 3);
}

}  // namespace
}  // namespace plumbline::fuzz

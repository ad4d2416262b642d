// SPDX-License-Identifier: Apache-2.0
//
// Tests the part of a device's expansion that needs no device. The values themselves are tested in
// device_case_test.cc.

#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"

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

}  // namespace
}  // namespace plumbline::fuzz

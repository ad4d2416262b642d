// SPDX-License-Identifier: Apache-2.0
//
// What plumbline is for, as tests: whatever a regime draws, every output of `host` lies within its
// proven bound, and the relations that an implementation cannot fake hold bit for bit. The last test
// shows that these can fail, and what is left behind when one does.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "fuzz/case_file.h"
#include "fuzz/recipe_gen.h"
#include "fuzz/regimes.h"
#include "tests/fuzz/support/property.h"

namespace plumbline::fuzz {

void showValue(const Recipe& recipe, std::ostream& out) { out << Format(recipe); }

namespace testing {
namespace {

// The same recipes on every run; campaigns are for new ones. Overridden by the environment.
const bool kSeeded = setenv("RC_PARAMS", "seed=20261121 max_success=150", 0) == 0;

const Target& Load(const char* name) {
  std::string error;
  static auto* cache = new std::map<std::string, std::unique_ptr<Target>>;
  auto& target = (*cache)[name];
  if (!target) target = Target::Load(name, &error);
  if (!target) throw std::runtime_error(error);
  return *target;
}

void Holds(const char* name, const Property& property, std::string_view regime = {}) {
  const Recipe recipe = *RecipeGen(regime);
  const auto report = Falsify(name, property, recipe, Load("host"), NewCasesFolder());
  if (report) RC_FAIL(*report);
}

// Kills: any of the planted defects, in the regime that is aimed at it.
RC_GTEST_PROP(Host, IsWithinItsBoundsInEveryRegime, ()) { Holds("within bounds", WithinBounds); }
RC_GTEST_PROP(Host, IsWithinItsBoundsOnRaggedTails, ()) {
  Holds("within bounds", WithinBounds, "ragged-tail");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsWhereAllIsNegative, ()) {
  Holds("within bounds", WithinBounds, "all-negative");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsUnderACommonOffset, ()) {
  Holds("within bounds", WithinBounds, "common-offset");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsAtConfidentLabels, ()) {
  Holds("within bounds", WithinBounds, "confident-label");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsOnExactDotProducts, ()) {
  Holds("within bounds", WithinBounds, "exact-dot");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsUnderCancellation, ()) {
  Holds("within bounds", WithinBounds, "cancellation");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsBesideIgnoredRows, ()) {
  Holds("within bounds", WithinBounds, "ignored-rows");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsForAnyUpstreamGradient, ()) {
  Holds("within bounds", WithinBounds, "upstream-gradients");
}

RC_GTEST_PROP(Host, IsWithinItsBoundsWhereSumsSwallow, ()) {
  Holds("within bounds", WithinBounds, "swallow");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsAtSpecialValues, ()) {
  Holds("within bounds", WithinBounds, "special-values");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsBesideInvalidLabels, ()) {
  Holds("within bounds", WithinBounds, "invalid-labels");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsOnSubnormals, ()) {
  Holds("within bounds", WithinBounds, "subnormal");
}
RC_GTEST_PROP(Host, IsWithinItsBoundsOnHugeLogits, ()) { Holds("within bounds", WithinBounds, "huge"); }
RC_GTEST_PROP(Host, IsWithinItsBoundsAtTheEdges, ()) { Holds("within bounds", WithinBounds, "edges"); }
RC_GTEST_PROP(Host, IsWithinItsBoundsUnderStrides, ()) {
  Holds("within bounds", WithinBounds, "strides");
}

// Kills: a tile, chunk or reduction order that depends on a row's position.
RC_GTEST_PROP(Host, RowOrderIsIrrelevant, ()) {
  Holds("row order is irrelevant", RowOrderIsIrrelevant);
}
// Kills: a gradient that is not linear, a constant added to it.
RC_GTEST_PROP(Host, NegatedGradientsNegate, ()) {
  Holds("negated gradients negate", NegatedGradientsNegate);
}
// Kills: a hidden tail read past its end, or left out.
RC_GTEST_PROP(Host, ZeroHiddenColumnsChangeNothing, ()) {
  Holds("zero hidden columns change nothing", ZeroHiddenColumnsChangeNothing);
}
// Kills: a stride that is not followed.
RC_GTEST_PROP(Host, LayoutChangesNothing, ()) { Holds("layout changes nothing", LayoutChangesNothing); }
// Kills: an ignored row that is multiplied by zero, or counted.
RC_GTEST_PROP(Host, IgnoredRowsAreAbsentRows, ()) {
  Holds("ignored rows are absent rows", IgnoredRowsAreAbsentRows, "ignored-rows");
}
// Kills: an entropy formed from the label's logit.
RC_GTEST_PROP(Host, EntropyDoesNotSeeTheLabel, ()) {
  Holds("entropy does not see the label", EntropyDoesNotSeeTheLabel);
}

// A property fails on a mutant, and leaves a small case behind that fails on the mutant and not on
// host.
TEST(Falsify, LeavesAMinimisedCase) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("plumbline-new-" + std::to_string(getpid()));
  const Target& mutant = Load("mutant:tail-unmasked");
  std::optional<std::string> report;
  for (uint64_t i = 0; i < 100 && !report; ++i) {
    report = Falsify("within bounds", WithinBounds, DrawRecipe(5, i, "ragged-tail"), mutant, folder);
  }
  ASSERT_TRUE(report);
  EXPECT_NE(report->find("plumb replay"), std::string::npos) << *report;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    std::string error;
    const auto stored = ReadCase(entry.path(), &error);
    ASSERT_TRUE(stored) << error;
    EXPECT_LE(ValueCount(stored->problem), 64);
    EXPECT_TRUE(WithinBounds(stored->problem, mutant));
    EXPECT_FALSE(WithinBounds(stored->problem, Load("host")));
  }
  EXPECT_EQ(files, 1);
  std::filesystem::remove_all(folder);
}

// Each relation must be able to fail: on a mutant that breaks it.
TEST(Relations, AreBrokenByTheDefectsTheyAreAimedAt) {
  const auto broken = [](const Property& property, const char* mutant, const char* regime) {
    for (uint64_t i = 0; i < 300; ++i) {
      if (property(Expand(DrawRecipe(6, i, regime)), Load(mutant))) return true;
    }
    return false;
  };
  EXPECT_TRUE(broken(RowOrderIsIrrelevant, "mutant:first-grad-for-all", "upstream-gradients"));
  EXPECT_TRUE(broken(IgnoredRowsAreAbsentRows, "mutant:ignored-row-leaks", "ignored-rows"));
}

}  // namespace
}  // namespace testing
}  // namespace plumbline::fuzz

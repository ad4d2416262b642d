// SPDX-License-Identifier: Apache-2.0
#include "fuzz/examine/magnitude.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "fuzz/baseline/honest_errors.h"
#include "fuzz/examine/examine.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/ordinary.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/catalogue.h"

namespace plumbline::fuzz {
namespace {

// Values for which a black box's bound is wide: the deeper, the wider.
Recipe Deep() {
  return {
      .seed = 7, .n = 24, .v = 700, .h = 1024, .exp = 1, .grads = Grads::kRandom, .fp32_grads = true};
}

CaseResult Examined(const std::string& target, bool honest_errors) {
  std::string error;
  const auto loaded = LoadTarget(target, &error);
  if (!loaded) throw std::runtime_error(error);
  ExamineOptions options;
  options.honest_errors = honest_errors;
  return Examine(Expand(Deep()), *loaded, options);
}

// Fails if an error inside of the bounds, which no honest kernel makes, is no finding, if it is taken
// for a proof, or if the rounding that explains it is not named.
TEST(Magnitude, OfRoundedLogitsInsideTheBounds) {
  const CaseResult result = Examined("mutant:logits-fp16@black-box", true);
  EXPECT_EQ(result.verdict, oracle::Verdict::kSuspect);
  const auto found = std::ranges::find(result.findings, "suspect-magnitude:lse", &Finding::Signature);
  ASSERT_NE(found, result.findings.end());
  EXPECT_EQ(found->shortcut, "logits rounded to fp16");
  EXPECT_GT(found->tightness, 1);
}

// Fails if an honest kernel has such a finding, or if it is looked for unasked.
TEST(Magnitude, IsNoneOfAnHonestKernelNorUnasked) {
  EXPECT_TRUE(Examined("host@black-box", true).findings.empty());
  EXPECT_TRUE(Examined("mutant:logits-fp16@black-box", false).findings.empty());
}

// Fails if an output whose values break a bound has a second finding of them, or if one unit's realised
// error is one.
TEST(Magnitude, IsNotToldTwiceNorOfOneUnit) {
  HonestErrors errors;
  OutputErrors& lse = errors.outputs.emplace_back();
  lse.output = oracle::Output::kLse;
  lse.units.units = 20;
  lse.units.effective = 12;
  lse.units.rms = 30;
  const auto added = [&](std::vector<Finding> findings) {
    const size_t before = findings.size();
    AddMagnitudes(errors, &findings);
    return findings.size() - before;
  };
  EXPECT_EQ(added({}), 1u);
  Finding wrong;
  wrong.output = "lse";
  EXPECT_EQ(added({wrong}), 0u);
  wrong.kind = FindingKind::kNondeterministic;
  EXPECT_EQ(added({wrong}), 1u);
  lse.units.effective = 1.2;
  EXPECT_EQ(added({}), 0u);
}

// Fails if what explains an output's errors does not name the bound that it breaks, names another
// output's, or takes the place of what a small case said.
TEST(Magnitude, NamesTheBoundsThatItsShortcutExplains) {
  HonestErrors errors;
  errors.explanation.shortcuts = {"grad_hidden accumulated in bf16"};
  errors.explanation.or_else = {""};
  errors.explanation.explains = {oracle::Output::kGradHidden};
  std::vector<Finding> findings(3);
  findings[0].output = findings[2].output = "grad_hidden";
  findings[1].output = "lse";
  for (Finding& f : findings) f.kind = FindingKind::kBound;
  findings[2].shortcut = "d_logits rounded to bf16";
  AddMagnitudes(errors, &findings);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].shortcut, "grad_hidden accumulated in bf16");
  EXPECT_EQ(findings[1].shortcut, "");
  EXPECT_EQ(findings[2].shortcut, "d_logits rounded to bf16");
}

// Fails if values that are made to reach a bound are taken for a model's.
TEST(Ordinary, ValuesThatReachABoundAreNot) {
  Recipe r = Deep();
  EXPECT_TRUE(IsOrdinary(r));
  r.values = Values::kSwallow;
  EXPECT_FALSE(IsOrdinary(r));
  r = Deep();
  r.special = Special::kWeightNaN;
  EXPECT_FALSE(IsOrdinary(r));
  r = Deep();
  r.n = 4;
  EXPECT_FALSE(IsOrdinary(r));
}

}  // namespace
}  // namespace plumbline::fuzz

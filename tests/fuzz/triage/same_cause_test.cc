// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/same_cause.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

// A finding whose problem shows `also`, whose neighbours show `near`, which fails at V as `own` says
// and in any way as `any` says.
Sighting Stored(const std::string& signature, FindingKind kind, const std::string& output,
                std::vector<std::string> also, std::vector<std::string> near,
                const std::string& own = "V:any", const std::string& any = "V:any") {
  Sighting sighting;
  sighting.target = "t";
  sighting.signature = signature;
  sighting.finding.kind = kind;
  sighting.finding.output = output;
  sighting.finding.suspect = signature.starts_with("suspect-");
  sighting.kept.emplace();
  sighting.kept->cause = {.also = std::move(also),
                          .near = std::move(near),
                          .rules = {own, "N:any", "H:any"},
                          .any_rules = {any, "N:any", "H:any"},
                          .needs = {}};
  return sighting;
}

constexpr FindingKind kBound = FindingKind::kBound, kNonFinite = FindingKind::kNonFinite;

// A tail that is dropped where V mod 8 is 1: nothing is left of V = 1. Fails if its two signatures are
// two causes.
TEST(SameCause, OneResidueFailsInTwoWays) {
  const Sighting wrong = Stored("bound:lse", kBound, "lse", {"bound:lse", "bound:logprob"},
                                {"bound:lse", "non-finite:lse"}, "V>=9=1%8", "V=1%8");
  const Sighting nan = Stored("non-finite:lse", kNonFinite, "lse", {"non-finite:lse"},
                              {"bound:lse", "non-finite:lse"}, "V=1", "V=1%8");
  EXPECT_TRUE(SameCause(wrong, nan));
  EXPECT_TRUE(SameCause(nan, wrong));
  const Sighting suspect = Stored("suspect-bound:lse", kBound, "lse", {"suspect-bound:lse"},
                                  {"suspect-bound:lse"}, "V=17", "V>=9=1%8");
  EXPECT_TRUE(SameCause(wrong, suspect));
}

// An output that is wrong is suspect where the bound is wide. Fails if that is a second finding because
// one of them was not explained, or not along each axis.
TEST(SameCause, ASuspectValueFollowsAWrongOne) {
  const Sighting wrong = Stored("bound:lse", kBound, "lse", {"bound:lse"}, {}, "V=1%8", "V=1%8");
  Sighting suspect =
      Stored("suspect-bound:lse", kBound, "lse", {"suspect-bound:lse"}, {"suspect-bound:lse"});
  suspect.kept->cause.rules = suspect.kept->cause.any_rules = {"N:any"};
  EXPECT_TRUE(SameCause(wrong, suspect));
  suspect.kept->cause.rules.clear();
  EXPECT_TRUE(SameCause(suspect, wrong));
  Sighting unexplained = wrong;
  unexplained.kept->cause.rules.clear();
  EXPECT_TRUE(SameCause(unexplained, suspect));
  suspect.finding.output = "entropy";
  EXPECT_FALSE(SameCause(wrong, suspect));
  EXPECT_FALSE(SameCause(unexplained, wrong));
}

// Fails if a finding joins one that does not damage its output, needs another residue, or an option
// that the other does not need, though each problem shows the other's signature.
TEST(SameCause, WhatNeedsMoreIsAnotherCause) {
  const Sighting always = Stored("bound:lse", kBound, "lse", {"bound:lse", "bound:logprob"}, {});
  const std::vector<std::string> both = {"bound:lse", "non-finite:lse"};
  EXPECT_TRUE(SameCause(always, Stored("non-finite:lse", kNonFinite, "lse", both, both)));
  EXPECT_FALSE(SameCause(always, Stored("non-finite:lse", kNonFinite, "lse", both, both, "V=3%64")));
  EXPECT_FALSE(SameCause(always, Stored("non-finite:lse", kNonFinite, "lse", both, both, "V=137")));
  EXPECT_FALSE(
      SameCause(always, Stored("non-finite:lse", kNonFinite, "lse", both, both, "V:any", "V=3%64")));
  EXPECT_FALSE(SameCause(
      always, Stored("bound:entropy", kBound, "entropy", {"bound:entropy", "bound:lse"}, both)));
  EXPECT_FALSE(SameCause(always, Stored("crash", FindingKind::kCrash, "", {"crash"}, {"bound:lse"})));
  Sighting option = Stored("sign:logprob", FindingKind::kSign, "logprob", {"sign:logprob"}, both);
  EXPECT_TRUE(SameCause(always, option));
  option.kept->cause.needs = {"mean"};
  EXPECT_FALSE(SameCause(always, option));
  option.kept->cause.also.push_back("bound:lse");
  EXPECT_TRUE(SameCause(always, option));
}

// Fails if two findings that show nothing in common are one, or if a suspect finding is thought to
// explain a wrong one.
TEST(SameCause, WhatHasNothingInCommonIsAnother) {
  const Sighting wrong = Stored("bound:lse", kBound, "lse", {"bound:lse"}, {});
  EXPECT_FALSE(SameCause(wrong, Stored("non-finite:lse", kNonFinite, "lse", {"non-finite:lse"}, {})));
  const Sighting suspect =
      Stored("suspect-bound:lse", kBound, "lse", {"suspect-bound:lse"}, {"suspect-bound:lse"});
  EXPECT_TRUE(SameCause(wrong, suspect));  // it is where the error is small
  const Sighting relation = Stored("relation:columns-permuted:lse", FindingKind::kRelation, "lse",
                                   {"relation:columns-permuted:lse"}, {});
  EXPECT_TRUE(SameCause(wrong, relation));
  EXPECT_FALSE(SameCause(suspect, relation));
}

// Fails if what could not be shrunk because it is seldom seen stays apart from the error that makes its
// output wrong, or goes to one that does not.
TEST(SameCause, WhatIsSeldomSeenBelongsToAWrongOutput) {
  const Sighting wrong = Stored("bound:lse", kBound, "lse", {"bound:lse"}, {});
  Sighting seldom = Stored("batch-variant:lse", FindingKind::kBatchVariant, "lse", {}, {});
  seldom.kept->cause = {};
  EXPECT_FALSE(SameCause(wrong, seldom));
  seldom.kept->note = "fails 0 of 5; not seen again on the same problem: stored as it came";
  EXPECT_TRUE(SameCause(wrong, seldom));
  seldom.finding.output = "grad_weight";
  EXPECT_FALSE(SameCause(wrong, seldom));
  EXPECT_FALSE(SameCause(seldom, seldom));
}

// Fails if a wrong value that there was no time to shrink stays apart from the graver error that makes
// its output wrong; or goes to a milder one, to one of another output, or to one that its extents do
// not show.
TEST(SameCause, WhatThereWasNoTimeForBelongsToAGraverOne) {
  const std::vector<std::string> both = {"non-finite:lse", "non-finite:entropy"};
  const Sighting nan = Stored("non-finite:lse", kNonFinite, "lse", both, {});
  Sighting late = Stored("bound:entropy", kBound, "entropy", {"bound:entropy"}, {});
  EXPECT_FALSE(SameCause(nan, late));
  late.kept->cause.rules.clear();
  EXPECT_TRUE(SameCause(nan, late));
  EXPECT_TRUE(SameCause(late, nan));
  Sighting another = late;
  another.finding.output = "grad_hidden";
  EXPECT_FALSE(SameCause(nan, another));
  Sighting untried = nan;
  untried.kept->cause.rules.clear();
  EXPECT_TRUE(SameCause(untried, late));
  untried.finding.suspect = true;
  EXPECT_FALSE(SameCause(untried, late));
  // The graver one may be what there was no time for: nothing says that it is the milder one's cause.
  Sighting milder = Stored("bound:entropy", kBound, "entropy", {"bound:entropy"}, {});
  untried.finding.suspect = false;
  EXPECT_FALSE(SameCause(untried, milder));

  const Sighting tail = Stored("non-finite:lse", kNonFinite, "lse", both, {}, "V=1%8", "V=1%8");
  EXPECT_FALSE(SameCause(tail, late));  // of a case without a recipe nothing is known
  late.recipe = Format(Recipe{.v = 17});
  EXPECT_TRUE(SameCause(tail, late));
  late.recipe = Format(Recipe{.v = 18});
  EXPECT_FALSE(SameCause(tail, late));

  Sighting narrow = nan;
  narrow.kept->cause.needs = {"fp16"};
  EXPECT_FALSE(SameCause(narrow, late));
  late.kept->cause.needs = {"T", "fp16"};
  EXPECT_TRUE(SameCause(narrow, late));
}

// An error that grows with T overflows where T is large. Fails if the infinity, which there was no time
// to shrink, is another cause than the wrong value; or if a NaN is the same, an infinity under other
// options, or one that was shrunk.
TEST(SameCause, AnInfinityIsTooLargeAWrongValue) {
  Sighting wrong = Stored("bound:grad_hidden", kBound, "grad_hidden",
                          {"bound:grad_hidden", "bound:grad_weight"}, {}, "V>=2", "V>=2");
  wrong.kept->cause.needs = {"T"};
  Sighting infinite =
      Stored("non-finite:grad_weight", kNonFinite, "grad_weight", {"non-finite:grad_weight"}, {});
  infinite.finding.got = std::numeric_limits<double>::infinity();
  infinite.finding.expected = 4e37;
  infinite.kept->cause.rules = infinite.kept->cause.any_rules = {"V>=2"};
  infinite.kept->cause.needs = {"T"};
  Recipe drawn;
  drawn.v = 54;
  infinite.recipe = Format(drawn);
  EXPECT_TRUE(SameCause(wrong, infinite));
  EXPECT_TRUE(SameCause(infinite, wrong));
  infinite.finding.got = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(SameCause(wrong, infinite));
  infinite.finding.got = -std::numeric_limits<double>::infinity();
  EXPECT_TRUE(SameCause(wrong, infinite));
  infinite.kept->cause.needs.clear();
  EXPECT_FALSE(SameCause(wrong, infinite));
  infinite.kept->cause.needs = {"T"};
  infinite.kept->cause.rules = infinite.kept->cause.any_rules = {"V>=2", "N:any", "H:any"};
  EXPECT_FALSE(SameCause(wrong, infinite));
}

// A second backward that fails everywhere also fails on the problem of a NaN. Fails if the failure is
// taken for a view of that NaN, or if one is not that needs as much, or whose problem shows the NaN.
TEST(SameCause, AStatusThatNeedsLessIsAnotherCause) {
  const std::string failed = "status:misfit@a-second-backward";
  Sighting nan = Stored("non-finite:grad_weight", kNonFinite, "grad_weight",
                        {"non-finite:grad_weight", failed}, {});
  nan.kept->cause.needs = {"fp16", "ignored-row"};
  Sighting status = Stored(failed, FindingKind::kStatus, "", {failed}, {});
  EXPECT_FALSE(SameCause(nan, status));
  EXPECT_FALSE(SameCause(status, nan));
  status.kept->cause.needs = nan.kept->cause.needs;
  EXPECT_TRUE(SameCause(nan, status));
  status.kept->cause.needs.clear();
  status.kept->cause.also.push_back("non-finite:grad_weight");
  EXPECT_TRUE(SameCause(nan, status));
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/finding_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

Sighting Seen(const std::string& signature, FindingKind kind, const std::string& output,
              int64_t item = 0) {
  Sighting sighting;
  sighting.target = "t";
  sighting.signature = signature;
  sighting.item = item;
  sighting.finding.kind = kind;
  sighting.finding.output = output;
  sighting.finding.suspect = signature.starts_with("suspect-");
  return sighting;
}

Sightings Of(const std::vector<Sighting>& list) {
  Sightings sightings;
  for (const Sighting& sighting : list) sightings[{sighting.target, sighting.signature}] = sighting;
  return sightings;
}

StoredFinding Kept(std::vector<std::string> also) {
  StoredFinding kept;
  kept.cause.also = std::move(also);
  kept.cause.rules = {"V:any", "N:any", "H:any"};
  kept.cause.any_rules = kept.cause.rules;
  return kept;
}

// Fails if what is new in one case makes several findings, if the gravest does not lead, if a later
// output of the data flow goes before an earlier one, or if a suspect signature leads a wrong one.
TEST(FindingGroups, TheGravestOfACaseLeads) {
  const auto leader = [](std::vector<Sighting> fresh) {
    Group(&fresh);
    for (size_t i = 1; i < fresh.size(); ++i) EXPECT_EQ(fresh[i].part_of, fresh[0].signature);
    EXPECT_EQ(fresh[0].part_of, "");
    return fresh[0].signature;
  };
  const Sighting lse = Seen("bound:lse", FindingKind::kBound, "lse");
  const Sighting weight = Seen("bound:grad_weight", FindingKind::kBound, "grad_weight");
  const Sighting nan = Seen("non-finite:entropy", FindingKind::kNonFinite, "entropy");
  const Sighting varies = Seen("nondeterministic:lse", FindingKind::kNondeterministic, "lse");
  const Sighting suspect = Seen("suspect-bound:lse", FindingKind::kBound, "lse");
  Sighting once = Seen("crash (once)", FindingKind::kCrash, "");
  once.reproduced = false;
  EXPECT_EQ(leader({weight, lse}), "bound:lse");
  EXPECT_EQ(leader({lse, nan, weight}), "non-finite:entropy");
  EXPECT_EQ(leader({varies, lse}), "bound:lse");
  EXPECT_EQ(leader({suspect, varies}), "nondeterministic:lse");
  EXPECT_EQ(leader({once, suspect}), "suspect-bound:lse");
  EXPECT_EQ(leader({once}), "crash (once)");
}

// Fails if what was new in one case is a part of its leader though the shrunk problem does not show it,
// if it is lost, or if it makes several findings at once.
TEST(FindingGroups, WhatTheShrunkProblemDoesNotShowIsAnotherFinding) {
  std::vector<Sighting> fresh = {Seen("bound:lse", FindingKind::kBound, "lse"),
                                 Seen("bound:logprob", FindingKind::kBound, "logprob"),
                                 Seen("bound:entropy", FindingKind::kBound, "entropy"),
                                 Seen("bound:grad_weight", FindingKind::kBound, "grad_weight")};
  Group(&fresh);
  fresh[0].kept = Kept({"bound:lse", "bound:logprob"});
  Sightings sightings = Of(fresh);
  const Parts parts = TakeApart(sightings, fresh[0]);
  EXPECT_EQ(parts, (Parts{{"bound:entropy", ""}, {"bound:grad_weight", "bound:entropy"}}));
  Apply(parts, "t", &sightings);
  EXPECT_EQ(FindingOf(sightings, sightings.at({"t", "bound:logprob"})).signature, "bound:lse");
  EXPECT_EQ(FindingOf(sightings, sightings.at({"t", "bound:grad_weight"})).signature, "bound:entropy");
  EXPECT_TRUE(TakeApart(sightings, fresh[0]).empty());
}

// Fails if a finding that has the cause of a stored one stays apart, if the less grave one leads then,
// or if what is a part of the one that joins gets lost.
TEST(FindingGroups, TheGraverOfOneCauseLeads) {
  Sighting wrong = Seen("bound:lse", FindingKind::kBound, "lse", 3);
  wrong.kept = Kept({"bound:lse", "bound:logprob"});
  Sighting part = Seen("bound:logprob", FindingKind::kBound, "logprob", 3);
  part.part_of = "bound:lse";
  Sighting nan = Seen("non-finite:lse", FindingKind::kNonFinite, "lse", 9);
  nan.kept = Kept({"non-finite:lse"});
  nan.kept->cause.near = {"bound:lse"};
  Sightings sightings = Of({wrong, part, nan});
  const Parts parts = Join(sightings, nan);
  EXPECT_EQ(parts, (Parts{{"bound:lse", "non-finite:lse"}}));
  Apply(parts, "t", &sightings);
  EXPECT_EQ(FindingOf(sightings, sightings.at({"t", "bound:logprob"})).signature, "non-finite:lse");

  Sighting suspect = Seen("suspect-bound:logprob", FindingKind::kBound, "logprob", 12);
  suspect.kept = Kept({"suspect-bound:logprob"});
  sightings[{"t", suspect.signature}] = suspect;
  EXPECT_EQ(Join(sightings, suspect), (Parts{{"suspect-bound:logprob", "non-finite:lse"}}));
  suspect.target = "another";
  sightings[{"another", suspect.signature}] = suspect;
  EXPECT_TRUE(Join(sightings, suspect).empty());
}

// Fails if the leader of one cause depends on which of two cases ended first.
TEST(FindingGroups, TheLeaderIsTheSameInEitherOrder) {
  for (const bool loss_first : {true, false}) {
    Sighting loss = Seen("bound:loss", FindingKind::kBound, "loss", loss_first ? 2 : 5);
    loss.kept = Kept({"bound:loss", "bound:logprob"});
    Sighting logprob = Seen("bound:logprob", FindingKind::kBound, "logprob", loss_first ? 5 : 2);
    logprob.kept = Kept({"bound:loss", "bound:logprob"});
    const Sightings sightings = Of({loss, logprob});
    EXPECT_EQ(Join(sightings, loss_first ? logprob : loss), (Parts{{"bound:loss", "bound:logprob"}}));
  }
}

// Two causes that were shrunk, and what there was no time for, which either may have made wrong. Fails
// if it makes one finding of the two, or belongs to another where they are stored in another order.
TEST(FindingGroups, WhatWasNotShrunkJoinsNoTwoCauses) {
  Sighting tail = Seen("non-finite:entropy", FindingKind::kNonFinite, "entropy");
  tail.kept = Kept({"non-finite:entropy", "non-finite:grad_weight"});
  tail.kept->cause.rules[0] = tail.kept->cause.any_rules[0] = "V=1%8";
  Sighting deep = Seen("bound:lse", FindingKind::kBound, "lse");
  deep.kept = Kept({"bound:lse", "bound:grad_weight"});
  deep.kept->cause.rules[2] = deep.kept->cause.any_rules[2] = "H>=65";
  Sighting late = Seen("bound:grad_weight", FindingKind::kBound, "grad_weight");
  late.kept.emplace();
  late.recipe = Format(Recipe{.v = 17, .h = 80});

  std::vector<Sighting> order = {tail, deep, late};
  const auto by_signature = [](const Sighting& a, const Sighting& b) {
    return a.signature < b.signature;
  };
  std::ranges::sort(order, by_signature);
  do {
    Sightings sightings;
    for (const Sighting& stored : order) {
      sightings[{stored.target, stored.signature}] = stored;
      Apply(Join(sightings, stored), "t", &sightings);
    }
    EXPECT_EQ(sightings.at({"t", tail.signature}).part_of, "");
    EXPECT_EQ(sightings.at({"t", deep.signature}).part_of, "");
    EXPECT_EQ(sightings.at({"t", late.signature}).part_of, tail.signature) << order[0].signature;
  } while (std::ranges::next_permutation(order, by_signature).found);
}

}  // namespace
}  // namespace plumbline::fuzz

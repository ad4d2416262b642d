// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/relation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/examine.h"
#include "fuzz/examine/placement.h"
#include "fuzz/problem/values.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/interface/views.h"
#include "fuzz/triage/shrink/shrink.h"
#include "oracle/budget/inputs.h"
#include "tests/fuzz/examine/odd_kernel.h"

namespace plumbline::fuzz {
namespace {

using testing::OddKernel;

// Relations depend on the form of a problem, not on its size.
Recipe Small(Recipe recipe) {
  if (recipe.seed % 32 == 0) {
    recipe.n = 1;
    recipe.v = 3'000;
    recipe.h = 2;
    return recipe;
  }
  recipe.n = std::min<int64_t>(recipe.n, 6);
  recipe.v = std::min<int64_t>(recipe.v, 60);
  recipe.h = std::min<int64_t>(recipe.h, 20);
  return recipe;
}

Ran RunOn(const Target& target, const OwnedProblem& problem, int poison) {
  Placement placement(problem);
  placement.Poison(poison);
  Ran ran{target.Run(placement.problem(), placement.results()), {}};
  ran.bits = CopyBits(placement.results());
  return ran;
}

RelationChecked Check(const Relation& relation, const OwnedProblem& asked, const Description& target,
                      uint64_t seed, const RunProblem& run) {
  const OwnedProblem problem = WithoutWhatItLacks(target.capabilities, asked);
  if (WhySkipped(target, problem)) return {};
  const Ran given = run(problem, 0);
  if (given.outcome.status != RunStatus::kOk) return {};
  return CheckRelation(relation, problem, given.bits, target, {.seed = seed}, run);
}

struct Tally {
  int64_t tried = 0, applied = 0, compared = 0;
};

// Checks each relation on recipes of every regime.
std::map<std::string, Tally> CheckAll(const Description& target, uint64_t seed, int64_t every,
                                      const RunProblem& run) {
  std::map<std::string, Tally> tallies;
  uint64_t index = seed;
  for (const Regime& regime : Regimes()) {
    if (++index % static_cast<uint64_t>(every) != 0) continue;
    const Recipe recipe = Small(DrawRecipe(20261123, index, regime.name));
    const OwnedProblem problem = Expand(recipe);
    for (const Relation& relation : Relations()) {
      const RelationChecked checked = Check(relation, problem, target, Mix(seed, index), run);
      Tally& tally = tallies[std::string(relation.name)];
      ++tally.tried;
      tally.applied += checked.compared > 0 ? 1 : 0;
      tally.compared += checked.compared;
      for (const Finding& f : checked.findings) ADD_FAILURE() << f.what << "\n" << Format(recipe);
    }
  }
  return tallies;
}

// Fails for an exactness condition that does not hold for our own arithmetic, and for a relation that
// applies to too few cases to be worth its place.
TEST(Relations, OurOwnTargetsViolateNone) {
  for (const char* name : {"host", "host-hopper"}) {
    std::string error;
    const auto target = LoadTarget(name, &error);
    ASSERT_TRUE(target) << error;
    std::map<std::string, Tally> all;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      for (const auto& [relation, tally] :
           CheckAll(target->description(), seed, 1,
                    [&](const OwnedProblem& p, int poison) { return RunOn(*target, p, poison); })) {
        all[relation].tried += tally.tried;
        all[relation].applied += tally.applied;
      }
    }
    EXPECT_EQ(all.size(), Relations().size());
    for (const auto& [relation, tally] : all) {
      EXPECT_GE(3 * tally.applied, tally.tried) << relation << " on " << name;
    }
  }
}

// Fails for a condition that is enough for our arithmetic alone, or that is dropped: kernels whose
// tiles and orders depend on the extents, whose exponential is another one in the last columns or never
// 0, whose 1/T is no power of two where T is one, whose operands are rounded to a grid, which merge
// parts by their lse or have another exponential where T is not 1, all as they declare.
TEST(Relations, HonestKernelsOfOddArithmeticViolateNone) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const OddKernel kernel(seed);
    CheckAll(kernel.description(), seed, 4, [&](const OwnedProblem& p, int) { return kernel.Run(p); });
    if (HasFailure()) FAIL() << "kernel " << seed;
  }
}

// --- Targets that break one relation, by so little that no bound notices.

const plumbline_target_v1& Host() {
  const auto& all = BuiltInTargets();
  return *std::find_if(all.begin(), all.end(), [](const BuiltIn& b) {
            return b.name == "host";
          })->table;
}

// Moves element i of an fp32 output up by one ulp.
void Nudge(const std::optional<kernel::Tensor>& t, int64_t i) {
  if (!t || t->dtype != kernel::DType::kF32 || i >= t->size()) return;
  float& x = static_cast<float*>(t->data)[i * t->stride[0]];
  x = std::nextafter(x, std::numeric_limits<float>::infinity());
}

int64_t ExponentOf(const kernel::ConstTensor& t, int64_t i) {
  const double x = oracle::ReadElement(t, i, 0);
  return x == 0 || !std::isfinite(x) ? 0 : std::ilogb(x) + 3 * 64;
}

void ByPlace(const kernel::Problem& p, const kernel::Results& r) {
  if (p.rows() > 3) Nudge(r.lse, p.rows() / 2);
}
void ByColumn(const kernel::Problem& p, const kernel::Results& r) {
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (oracle::ReadInt(p.labels, i) < p.vocab() / 2) Nudge(r.lse, i);
  }
}
void ByVocabulary(const kernel::Problem& p, const kernel::Results& r) {
  if (p.vocab() % 2 != 0) Nudge(r.lse, 0);
}
void ByHidden(const kernel::Problem& p, const kernel::Results& r) {
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (p.hidden_size() > 0 && ExponentOf(p.hidden, i) % 3 == 0) Nudge(r.lse, i);
  }
}
void ByTemperature(const kernel::Problem& p, const kernel::Results& r) {
  for (int64_t i = 0; i < p.rows() && p.temperature; ++i) {
    if (ExponentOf(*p.temperature, i) % 3 == 0) Nudge(r.lse, i);
  }
}
void ByUpstream(const kernel::Problem& p, const kernel::Results& r) {
  for (int64_t i = 0; i < p.rows() && p.grad_logprob; ++i) {
    if (std::fabs(oracle::ReadElement(*p.grad_logprob, i, 0)) < 4) Nudge(r.grad_hidden, i);
  }
}

// The host's results, tampered with.
template <void (*kTamper)(const kernel::Problem&, const kernel::Results&)>
struct Tampered {
  static int Run(const plumbline_problem* problem, plumbline_results* results, void* stream, char* why,
                 size_t size) {
    const int status = Host().run(problem, results, stream, why, size);
    kernel::Problem p;
    kernel::Results r;
    if (status == PLUMBLINE_OK && !FromAbi(problem, results, kDLCPU, &p, &r)) kTamper(p, r);
    return status;
  }
  static const char* Describe() { return Host().describe(); }
  static constexpr plumbline_target_v1 kTable = {PLUMBLINE_TARGET_ABI_VERSION,
                                                 sizeof(plumbline_target_v1),
                                                 &Describe,
                                                 &Run,
                                                 nullptr,
                                                 nullptr,
                                                 nullptr};
};

struct Violation {
  const char* relation;
  const char* output;
  const plumbline_target_v1* table;
};
constexpr Violation kViolations[] = {{"rows-permuted", "lse", &Tampered<ByPlace>::kTable},
                                     {"columns-permuted", "lse", &Tampered<ByColumn>::kTable},
                                     {"shard-without-mass", "lse", &Tampered<ByVocabulary>::kTable},
                                     {"factors-scaled", "lse", &Tampered<ByHidden>::kTable},
                                     {"temperature-scaled", "lse", &Tampered<ByTemperature>::kTable},
                                     {"upstream-scaled", "grad_hidden", &Tampered<ByUpstream>::kTable}};

// The signature of the only finding of a case; empty if there is none or more than one.
std::string OnlySignature(const OwnedProblem& problem, const Target& target, uint64_t seed) {
  const CaseResult result = Examine(problem, target, {.seed = seed, .arbiter = false});
  return result.findings.size() == 1 ? result.findings.front().Signature() : "";
}

// Each relation is checked in campaigns and finds what no other check sees, and the shrinker keeps to
// it. Fails for a relation that the seed never chooses, one whose results are not compared, one that is
// tried on another problem each time.
TEST(Relations, EachFindsWhatNoOtherCheckSees) {
  ASSERT_EQ(std::size(kViolations), Relations().size());
  for (const Violation& violation : kViolations) {
    std::string error;
    const auto target = Target::Adopt(violation.relation, violation.table, &error);
    ASSERT_TRUE(target) << error;
    const std::string signature = Text("relation:%s:%s", violation.relation, violation.output);
    int seen = 0, tried = 0;
    OwnedProblem found;
    uint64_t found_by = 0;
    for (uint64_t seed = 0; seed < 2'000 && seen < 3; ++seed) {
      const auto order = RelationsToTry(seed, "");
      if (order.empty() || order.front()->name != violation.relation) continue;
      const OwnedProblem problem = Expand(Small(DrawRecipe(5, seed, {})));
      ++tried;
      if (OnlySignature(problem, *target, seed) != signature) continue;
      ++seen;
      found = problem;
      found_by = seed;
    }
    EXPECT_EQ(seen, 3) << signature << " in " << tried << " cases";
    if (seen == 0) continue;
    ShrinkOptions options;
    options.time_limit = std::chrono::minutes(10);
    const StillFails same = [&](const OwnedProblem& p) {
      return OnlySignature(p, *target, found_by) == signature;
    };
    const ShrinkResult shrunk = Shrink(found, {violation.output, 0, 0}, same, options);
    EXPECT_TRUE(shrunk.complete) << signature;
    EXPECT_LE(ValueCount(shrunk.problem), 24) << signature << ", from " << ValueCount(found);
  }
}

// Fails if what a worker checks of every problem is found once more by each relation, or if a refusal
// of a valid problem is not found.
TEST(Relations, AMisfitIsAFindingOfTheCaseAlone) {
  std::string error;
  const auto target = LoadTarget("host", &error);
  const Description& description = target->description();
  int refused = 0;
  for (const bool misfit : {true, false}) {
    for (const Relation& relation : Relations()) {
      bool first = true;
      const auto run = [&](const OwnedProblem& problem, int poison) {
        Ran ran = RunOn(*target, problem, poison);
        if (first) {
          first = false;
          return ran;
        }
        ran.outcome = {RunStatus::kFailed, "grad_hidden: not again",
                       misfit ? "misfit@grad_hidden-not-again" : "ValueError@kernel"};
        return ran;
      };
      const RelationChecked checked =
          Check(relation, Expand(Small(DrawRecipe(3, 1))), description, 5, run);
      EXPECT_TRUE(!misfit || checked.findings.empty()) << relation.name;
      refused += static_cast<int>(checked.findings.size());
    }
  }
  EXPECT_GT(refused, 2);
}

// Fails for a cost that campaigns cannot bear, and a relation that a campaign never meets.
TEST(Relations, OneCaseInEightAsksForOneOfThem) {
  std::map<std::string_view, int> first;
  for (uint64_t seed = 0; seed < 8'000; ++seed) {
    const auto order = RelationsToTry(seed, "");
    if (!order.empty()) ++first[order.front()->name];
  }
  int all = 0;
  for (const Relation& relation : Relations()) {
    EXPECT_GT(first[relation.name], 100) << relation.name;
    all += first[relation.name];
  }
  EXPECT_NEAR(all, 1'000, 100);
}

// Fails for a logit that is neither 0 nor far below, terms of a dot product that some order rounds, and
// a label among the columns that are left out.
TEST(Relations, ColumnsHaveTheirMassExactlyOrNone) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  ASSERT_TRUE(host) << error;
  int64_t rows = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const OwnedProblem given = Expand(Small(DrawRecipe(9, seed, {})));
    for (const auto make : {ColumnsPermuted, ShardWithoutMass}) {
      const auto related = make(given, host->description(), seed);
      if (!related) continue;
      const OwnedProblem& p = related->before;
      EXPECT_FALSE(Inconsistency(p));
      EXPECT_FALSE(Inconsistency(related->after));
      for (int64_t i = 0; i < p.rows(); ++i) {
        int64_t mass = 0, column = 0;
        for (const double z : Logits(p, i)) {
          EXPECT_TRUE(z == 0 || z / TemperatureOf(p, i) <= -200) << z;
          mass += z == 0;
          EXPECT_FALSE(related->column_to[static_cast<size_t>(column)] < 0 && z == 0);
          ++column;
        }
        EXPECT_EQ(mass, 1) << "a merge by lse takes exp(ln 2), which is not 2";
        ++rows;
        const int64_t label = p.labels.GetInt(i);
        if (label == p.ignore_index) continue;
        EXPECT_GE(related->column_to[static_cast<size_t>(label)], 0);
        const float of_label = p.weight.GetFloat(label * p.hidden_size());
        EXPECT_EQ(of_label,
                  related->after.weight.GetFloat(related->after.labels.GetInt(i) * p.hidden_size()));
      }
      for (const HostTensor* t : {&p.hidden, &p.weight}) {
        for (int64_t e = 0; e < t->size(); ++e) {
          const float x = std::fabs(t->GetFloat(e));
          EXPECT_TRUE(x == 0 || (SignificantBits(x) == 1 && x >= 1 && x <= 0x1p8F)) << x;
        }
      }
    }
  }
  EXPECT_GT(rows, 400);
}

// Fails if logits without mass are beyond fp16 where a contract stores them in it: a tile of -inf alone
// makes a NaN of an honest kernel.
TEST(Relations, LogitsWithoutMassFitTheDtypeThatTheyAreStoredIn) {
  Description target;
  target.contract.scaled_logits = kernel::DType::kF16;
  int64_t rows = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const OwnedProblem given = Expand(Small(DrawRecipe(9, seed, "temperatures")));
    for (const auto make : {ColumnsPermuted, ShardWithoutMass}) {
      const auto related = make(given, target, seed);
      if (!related) continue;
      for (int64_t i = 0; i < related->before.rows(); ++i) {
        for (const double z : Logits(related->before, i)) {
          EXPECT_GE(z / TemperatureOf(related->before, i), -65504);
        }
        ++rows;
      }
      target.contract.log_probs = kernel::DType::kF16;
      EXPECT_FALSE(make(given, target, seed))
          << "a log-probability of -2^15 is outside of the contract";
      target.contract.log_probs = {};
    }
  }
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Special values must be what their names say, as seen in the logits. Host's answer to invalid rows
// must be judged, not exempted.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OwnedProblem Drawn(const std::string& keys, uint64_t seed, Recipe* recipe = nullptr) {
  Recipe r;
  std::string error;
  EXPECT_TRUE(Parse("v1 n=4 v=9 h=5 " + keys, &r, &error)) << error;
  r.seed = seed;
  if (recipe != nullptr) *recipe = r;
  return Expand(r);
}

// The logits of one row in double, infinities included.
std::vector<double> Logits(const OwnedProblem& p, int64_t row) {
  std::vector<double> logits;
  const int64_t h = p.hidden_size();
  for (int64_t v = 0; v < p.vocab(); ++v) {
    double z = 0;
    for (int64_t d = 0; d < h; ++d) {
      z += double{p.hidden.GetFloat(row * h + d)} * p.weight.GetFloat(v * h + d);
    }
    logits.push_back(z);
  }
  return logits;
}

struct Seen {
  int minus = 0, plus = 0, nan = 0, finite = 0, label_minus = 0;
};

Seen Look(const OwnedProblem& p) {
  Seen seen;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const std::vector<double> logits = Logits(p, i);
    for (const double z : logits) {
      ++(std::isnan(z)     ? seen.nan
         : z == kInfinity  ? seen.plus
         : z == -kInfinity ? seen.minus
                           : seen.finite);
    }
    seen.label_minus += logits[static_cast<size_t>(p.labels.GetInt(i))] == -kInfinity ? 1 : 0;
  }
  return seen;
}

// Looks for each in most of 40 problems, since one time in four the signs of hidden are left alone.
// Fails if an infinity has the wrong sign, meets a zero, or lands on a label or nowhere.
TEST(Special, InfinitiesAreWhatTheirNamesSay) {
  int minus = 0, label = 0, all = 0, plus = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Seen a = Look(Drawn("special=minus-inf values=lattice", seed));
    minus += a.minus > 0 && a.plus + a.nan == 0 && a.label_minus == 0 && a.finite > 0;
    const Seen b = Look(Drawn("special=minus-inf-label dtype=fp16", seed));
    label += b.label_minus > 0 && b.plus + b.nan == 0 && b.finite > 0;
    const Seen c = Look(Drawn("special=all-minus-inf dtype=fp32", seed));
    all += c.minus == 4 * 9;
    const Seen d = Look(Drawn("special=plus-inf", seed));
    plus += d.plus == 4 && d.finite == 4 * 8;
  }
  EXPECT_GE(minus, 20);
  EXPECT_GE(label, 20);
  EXPECT_GE(all, 20);
  EXPECT_GE(plus, 20);
}

// Fails if a NaN or an infinity of hidden reaches an ignored row alone, or more than one row.
TEST(Special, HiddenIsSpecialInOneRowThatCounts) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const char* special : {"hidden-nan", "hidden-inf"}) {
      const OwnedProblem p = Drawn("labels=some-ignored special=" + std::string(special), seed);
      int rows = 0;
      for (int64_t i = 0; i < p.rows(); ++i) {
        bool here = false;
        for (int64_t d = 0; d < p.hidden_size(); ++d) {
          here = here || !std::isfinite(p.hidden.GetFloat(i * p.hidden_size() + d));
        }
        rows += here ? 1 : 0;
        EXPECT_TRUE(!here || p.labels.GetInt(i) != p.ignore_index) << special;
      }
      EXPECT_EQ(rows, 1) << special;
    }
  }
}

// Fails if a label said to be invalid is valid or ignored, or if all rows are always invalid: then the
// effect on valid rows beside them is never tested.
TEST(Special, InvalidLabelsAreInvalidAndLeaveOthers) {
  int mixed = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const OwnedProblem p =
        Drawn(std::string("labels=invalid label_dtype=") + (seed % 2 == 0 ? "int32" : "int64"), seed);
    int invalid = 0;
    for (int64_t i = 0; i < p.rows(); ++i) {
      const int64_t label = p.labels.GetInt(i);
      EXPECT_NE(label, p.ignore_index);
      invalid += label < 0 || label >= p.vocab() ? 1 : 0;
    }
    EXPECT_GE(invalid, 1);
    mixed += invalid < p.rows() ? 1 : 0;
  }
  EXPECT_GE(mixed, 20);
}

// Fails if Examine takes host's report of invalid data for a refusal, whose outputs nobody looks at.
TEST(Special, InvalidRowsOfHostAreJudged) {
  std::string error;
  const auto host = LoadTarget("host", &error);
  ASSERT_TRUE(host) << error;
  for (const char* keys : {"labels=invalid", "special=temperature", "labels=invalid reduction=mean"}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const CaseResult result = Examine(Drawn(keys, seed), *host, {.seed = seed});
      EXPECT_EQ(result.verdict, oracle::Verdict::kPass) << keys;
      EXPECT_EQ(result.harness_fault, "");
      int64_t judged = 0;
      for (const OutputSummary& o : result.outputs) judged += o.pass;
      // The forward outputs and grad_hidden of all four rows are judged, whatever becomes of
      // grad_weight.
      EXPECT_GE(judged, 4 * (2 + 5)) << keys;
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz

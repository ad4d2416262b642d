// SPDX-License-Identifier: Apache-2.0
//
// Mutants of the operator on small problems, where their errors break bounds: a rounding is named, a
// bug never is.

#include "fuzz/baseline/small_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/baseline/drawn_problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Output;
using testing::Drawn, testing::Shape;

struct Named {
  std::string shortcut;
  size_t failing = 0;  // outputs
};

// What is named of a target, held to its own contract.
Named Name(const Drawn& drawn, const std::string& target) {
  drawn.Compute(target);
  std::string error;
  const oracle::Contract contract = LoadTarget(target, &error)->description().contract;
  std::vector<Output> failing;
  for (const oracle::OutputVerdict& v :
       oracle::JudgeProblem(drawn.problem(), drawn.results(), contract).outputs) {
    if (v.fail > 0) failing.push_back(v.output);
  }
  return {ShortcutOfSmallCase(drawn.problem(), drawn.results(), contract, failing), failing.size()};
}

struct Rounding {
  const char* mutant;
  const char* shortcut;
  Shape shape = {.n = 8, .v = 130, .h = 32, .weight = 0.2F};
};

class Roundings : public ::testing::TestWithParam<Rounding> {};

// Fails if a rounding that breaks bounds is not named, or as another one.
TEST_P(Roundings, AreNamed) {
  const Named named = Name(Drawn(GetParam().shape, 3), std::string("mutant:") + GetParam().mutant);
  EXPECT_GT(named.failing, 0U);
  EXPECT_EQ(named.shortcut.substr(0, named.shortcut.find(", or ")), GetParam().shortcut);
}

INSTANTIATE_TEST_SUITE_P(
    OfMutants, Roundings,
    ::testing::Values(Rounding{"logits-rounded", "logits rounded to bf16"},
                      Rounding{"logits-fp16", "logits rounded to fp16"},
                      Rounding{"logprob-rounded", "logprob stored in bf16"},
                      Rounding{"probability-rounded",
                               "probabilities rounded to bf16 before the label's 1 is subtracted"},
                      Rounding{"small-p-skipped",
                               "no gradient from probabilities below 2^-12",
                               {.n = 8, .v = 500, .h = 32, .weight = 0.3F}},
                      Rounding{"saved-sum-rounded", "the softmax sum kept in bf16 for backward"},
                      Rounding{"grad-hidden-accumulator",
                               "grad_hidden accumulated in bf16 every 256 columns",
                               {.n = 8, .v = 2000, .h = 16, .weight = 0.3F}}),
    [](const auto& p) {
      std::string name = p.param.mutant;
      std::erase(name, '-');
      return name;
    });

// Fails if a bug is called a rounding.
TEST(SmallCases, ABugIsNoShortcut) {
  for (const char* mutant :
       {"tail-unmasked", "tail-dropped", "backward-tail-unmasked", "label-shard-offset",
        "first-grad-for-all", "entropy-grad-dropped", "entropy-grad-without-h", "splits-not-merged"}) {
    size_t failing = 0;
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Drawn drawn({.n = 6 + seed,
                         .v = 100 + 40 * static_cast<int64_t>(seed),
                         .h = 24,
                         .weight = 0.2F,
                         .temperature = seed % 2 == 0 ? 0.7F : 1.0F},
                        seed);
      const Named named = Name(drawn, std::string("mutant:") + mutant);
      failing += named.failing;
      EXPECT_EQ(named.shortcut, "") << mutant << " " << seed;
    }
    EXPECT_GT(failing, 0U) << mutant;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

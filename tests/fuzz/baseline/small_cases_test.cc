// SPDX-License-Identifier: Apache-2.0
//
// Mutants of the operator on small problems, where their errors break bounds: a rounding is named, a
// bug never is.

#include "fuzz/baseline/small_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/baseline/softmax.h"
#include "kernel/dtype.h"
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

// grad_weight of one row with H = 1, from probabilities in fp16. Each errs as one in fp32 does before
// it is rounded: ln p by three roundings, up in every second column.
void ComputeFromRoundedProbabilities(const Drawn& drawn) {
  const OwnedProblem& owned = drawn.owned();
  const auto vocab = static_cast<size_t>(owned.weight.size());
  const double hidden = static_cast<double>(owned.hidden.GetFloat(0));
  const double temperature =
      owned.temperature ? static_cast<double>(owned.temperature->GetFloat(0)) : 1.0;
  std::vector<double> log_p(vocab);
  double sum = 0, entropy = 0;
  for (size_t v = 0; v < vocab; ++v) {
    log_p[v] =
        hidden * static_cast<double>(owned.weight.GetFloat(static_cast<int64_t>(v))) / temperature;
    sum += std::exp(log_p[v]);
  }
  for (double& each : log_p) each -= std::log(sum);
  for (const double each : log_p) entropy -= each * std::exp(each);
  const auto label = static_cast<size_t>(owned.labels.GetInt(0));
  const double g = static_cast<double>(owned.grad_logprob->GetFloat(0));
  const double k = static_cast<double>(owned.grad_entropy->GetFloat(0));
  auto* const gradient = static_cast<float*>(drawn.results().grad_weight->data);
  for (size_t v = 0; v < vocab; ++v) {
    const double error = (v % 2 == 0 ? 0x1.8p-23 : -0x1.8p-23) * std::abs(log_p[v]);
    const auto p = static_cast<double>(
        kernel::ToFloat(kernel::ToFloat16(static_cast<float>(std::exp(log_p[v] + error)))));
    const double d = g * ((v == label ? 1 : 0) - p) - k * p * (log_p[v] + entropy);
    gradient[v] = static_cast<float>(d / temperature * hidden);
  }
}

// Fails if a rounding is called unexplained where fp32's own errors move a probability over a tie: its
// logits are exact, and ln p is rounded all the same.
TEST(SmallCases, WhatLiesNearATieIsExplained) {
  std::string error;
  const oracle::Contract contract = LoadTarget("host", &error)->description().contract;
  for (const float temperature : {1.0F, 0.3F}) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const Drawn drawn(
          {.n = 1, .v = 4000, .h = 1, .hidden = 2, .weight = 2, .temperature = temperature}, seed);
      ComputeFromRoundedProbabilities(drawn);
      EXPECT_FALSE(LeavesUnexplained(drawn.problem(), drawn.results(), contract, Output::kGradWeight))
          << seed << " " << temperature;
    }
  }
}

// Fails if a logit that fp16 rounds to -inf, and whose probability is 0, makes a gradient that is no
// number on one side of a tie.
TEST(SmallCases, AProbabilityOfZeroHasNoSide) {
  for (const double nudge : {0x1p-40, -0x1p-40}) {
    Baseline baseline;
    baseline.shortcuts.logits = baseline.shortcuts.probabilities = DType::kF16;
    baseline.shortcuts.nudge = nudge;
    const std::vector<double> z = {1, -1e6};
    std::vector<double> memory, d(z.size());
    RowScalars row;
    row.g = row.k = 1;
    const auto rounded = ShortcutLogits<double>(baseline.shortcuts, z, 1, &memory);
    ASSERT_TRUE(std::isinf(rounded[1]));
    DLogits<double>(baseline, rounded, row, ForwardOf<double>(baseline, rounded, row), d);
    EXPECT_EQ(d[1], 0) << nudge;
  }
}

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

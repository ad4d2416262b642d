// SPDX-License-Identifier: Apache-2.0
//
// Uses all three libraries: runs the operator, has the oracle judge it, spoils one value and has that
// judged too, and draws a recipe.

#include <cstdio>
#include <string>
#include <vector>

#include "fuzz/builtin/catalogue.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "kernel/linear_cross_entropy.h"
#include "oracle/judge/expectation.h"  // moved since version 0.1: forwarded
#include "oracle/judge/verdict.h"
#include "tiny_problem.h"

namespace {

int64_t Failures(const plumbline::kernel::Results& results,
                 const plumbline::oracle::Expectation& expected) {
  int64_t failures = 0;
  for (const auto& verdict : plumbline::oracle::JudgeAll(results, expected)) failures += verdict.fail;
  return failures;
}

}  // namespace

int main() {
  std::string why;
  if (!plumbline::fuzz::LoadTarget("host", &why)) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  TinyProblem tiny;
  const plumbline::kernel::Problem problem = tiny.problem();
  const plumbline::kernel::Results results = tiny.results();
  if (!plumbline::kernel::Run(problem, results).ok() || !tiny.IsRight()) return 1;

  const auto expected = plumbline::oracle::Expected(problem, results, plumbline::oracle::Contract{});
  if (Failures(results, expected) != 0) return 2;
  tiny.logprob[1] += 0x1p-8F;
  if (Failures(results, expected) != 1) return 3;

  const std::string line = plumbline::fuzz::Format(plumbline::fuzz::DrawRecipe(1, 0));
  std::printf("%s\n", line.c_str());
  return line.empty() ? 4 : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/first_call.h"

#include <algorithm>
#include <cstdint>

#include "fuzz/campaign/search/within.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {
namespace {

constexpr uint64_t kSeed = 1;

// Returns the seconds that the target ran; negative if the case was not judged.
double Seconds(const Recipe& recipe, CaseRunner* runner) {
  const Judged judged = runner->Run(RequestFor(Format(recipe), kSeed));
  const bool ran = judged.kind == Judged::Kind::kJudged && !judged.retried &&
                   judged.result.verdict != oracle::Verdict::kSkipped;
  return ran ? judged.result.target_seconds : -1;
}

}  // namespace

double FirstCallSeconds(CaseRunner* runner, const Capabilities& can) {
  double least = 1e9;
  for (int64_t shape = 0; shape < 3; ++shape) {
    Recipe recipe{.seed = kSeed, .n = 2, .v = 40, .h = 16};
    recipe = KeepWithin(can, recipe);
    recipe.n += shape * can.rows_multiple;
    recipe.v += shape * can.vocab_multiple;
    const double first = Seconds(recipe, runner), second = Seconds(recipe, runner);
    if (first < 0 || second < 0) return 0;
    if (shape > 0) least = std::min(least, std::max(0.0, first - second));
  }
  return least;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/first_call.h"

#include <algorithm>
#include <array>
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

FirstCall MeasureFirstCall(CaseRunner* runner, const Capabilities& can) {
  // All multiples of 16 and more are of one class.
  const auto steps = [](int64_t multiple, std::array<int64_t, 4> extents) {
    for (size_t i = 0; multiple > 1 && i < extents.size(); ++i) {
      extents[i] = static_cast<int64_t>(i) * multiple;
    }
    return extents;
  };
  const auto rows = steps(can.rows_multiple, {0, 1, 14, 3});
  const auto columns = steps(can.vocab_multiple, {0, 1, 56, 90});
  std::array<double, 4> longer{};
  for (size_t i = 0; i < longer.size(); ++i) {
    Recipe recipe{.seed = kSeed, .n = 2, .v = 40, .h = 16};
    recipe = KeepWithin(can, recipe);
    recipe.n += rows[i];
    recipe.v += columns[i];
    const double first = Seconds(recipe, runner);
    if (first < 0) return {};
    const double second = Seconds(recipe, runner);
    if (second < 0) return {};
    longer[i] = std::max(0.0, first - second);
  }
  const bool by_class = longer[1] < kSlowFirstCall;
  std::ranges::sort(longer.begin() + 1, longer.end());
  return {longer[2], by_class};
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/infer/collect.h"

#include <algorithm>
#include <utility>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

HostTensor Dense(const kernel::ConstTensor& from) {
  HostTensor to = HostTensor::Zeros(from.dtype, {from.shape, from.shape + from.rank});
  const auto bytes = kernel::SizeOf(from.dtype);
  const int64_t columns = from.rank > 1 ? from.shape[1] : 1, count = to.size();
  for (int64_t e = 0; e < count; ++e) {
    const int64_t i = e / columns, j = e % columns;
    const int64_t at =
        (from.rank > 0 ? i * from.stride[0] : 0) + (from.rank > 1 ? j * from.stride[1] : 0);
    std::copy_n(static_cast<const std::byte*>(from.data) + at * static_cast<int64_t>(bytes), bytes,
                to.bytes.data() + static_cast<size_t>(e) * bytes);
  }
  return to;
}

}  // namespace

std::vector<InferenceCase> CollectCases(std::string_view recipes, const Target& target, bool same_shape,
                                        std::chrono::milliseconds within, int64_t* left) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  std::vector<InferenceCase> cases;
  *left = 0;
  for (size_t begin = 0; begin < recipes.size();) {
    const size_t end = std::min(recipes.find('\n', begin), recipes.size());
    const std::string line(recipes.substr(begin, end - begin));
    begin = end + 1;
    if (std::chrono::steady_clock::now() >= deadline) {
      ++*left;
      continue;
    }
    Recipe recipe;
    std::string error;
    if (!Parse(line, &recipe, &error)) continue;
    ExamineOptions options;
    options.arbiter = false;
    options.same_shape = same_shape;
    // As a campaign gives it: an upstream gradient of an output that the target lacks is not there.
    const OwnedProblem problem = WithoutWhatItLacks(target.description().capabilities, Expand(recipe));
    options.observe = [&](const kernel::Results& results) {
      InferenceCase& kept = cases.emplace_back();
      kept.recipe = line;
      kept.problem = problem;
      kept.results.resize(oracle::kOutputs.size());
      for (const oracle::Output output : oracle::kOutputs) {
        const auto& tensor = oracle::Find(results, output);
        if (tensor) kept.results[static_cast<size_t>(output)] = Dense(kernel::AsConst(*tensor));
      }
    };
    Examine(problem, target, options);
  }
  return cases;
}

}  // namespace plumbline::fuzz

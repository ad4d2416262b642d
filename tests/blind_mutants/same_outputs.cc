// SPDX-License-Identifier: Apache-2.0
//
// Two plug-ins on the same drawn recipes, their outputs compared bit by bit: whether a mutant that
// plumb did not find can be told from the original at all.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fuzz/base/json.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/target.h"
#include "fuzz/target_abi.h"
#include "tests/same_bits/compare.h"

namespace plumbline::blind_mutants {
namespace {

constexpr const char* kUsage =
    "usage: same_outputs ORIGINAL.so MUTANT.so RECIPES SEED\n"
    "Prints one JSON object. Exit status: 0 the same bits, 1 different, 2 usage, 3 not to be told\n";
constexpr size_t kMaxExamples = 5;
constexpr int64_t kEnough = 20;  // cases that differ, after which no more are run

std::unique_ptr<fuzz::Target> Load(const char* library) {
  std::string error;
  auto target = fuzz::Target::Open(library, std::filesystem::canonical(library), &error);
  if (target == nullptr) throw std::runtime_error(error);
  return target;
}

uint64_t Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size()) return value;
  throw std::invalid_argument(std::string(text) + ": not a whole number");
}

int Run(const char* original, const char* mutant, uint64_t recipes, uint64_t seed) {
  const auto older = Load(original);
  const auto newer = Load(mutant);
  const plumbline_target_v1 &was = older->table(), &is = newer->table();
  if (was.run == is.run) throw std::invalid_argument(std::string(mutant) + " is " + original);
  same_bits::Counts counts;
  fuzz::Json result;
  fuzz::Json::Array examples;
  for (uint64_t i = 0; i < recipes && counts.different < kEnough; ++i) {
    const fuzz::Recipe recipe = fuzz::DrawRecipe(seed, i);
    std::optional<fuzz::OwnedProblem> problem;
    try {
      problem = fuzz::Expand(recipe);
    } catch (const std::exception&) {
      ++counts.not_run;
      continue;
    }
    const std::string difference =
        same_bits::Compare(*problem, was, is, same_bits::Except::kSizesAndMessages, &counts);
    ++counts.cases;
    if (difference.empty()) continue;
    ++counts.different;
    if (examples.size() < kMaxExamples) examples.emplace_back(fuzz::Format(recipe) + ": " + difference);
  }
  result["cases"] = counts.cases;
  result["computed"] = counts.computed;
  result["not run"] = counts.not_run;
  result["elements"] = counts.elements;
  result["different"] = counts.different;
  result["first"] = examples;
  std::printf("%s\n", result.Dump().c_str());
  return counts.different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace plumbline::blind_mutants

int main(int argc, char** argv) {
  using namespace plumbline::blind_mutants;
  try {
    if (argc != 5) throw std::invalid_argument(kUsage);
    return Run(argv[1], argv[2], Number(argv[3]), Number(argv[4]));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "same_outputs: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "same_outputs: %s\n", e.what());
    return 3;
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/inference.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/campaign/search/palette.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/target_draws.h"
#include "fuzz/target/description.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

// Larger ones take longer and tell nothing more.
constexpr int64_t kMostLogits = 8192, kMostProducts = 1 << 18;
constexpr size_t kDrawsEach = 40;
// Where one rounding shows and others do not: products that are exact, or full significands; labels
// that lead, or have no mass; many chunks; offsets, under which the plain forms lose their digits;
// exponentials and operands that are subnormal.
constexpr std::array<std::string_view, 13> kTellApart = {"exact-dot",
                                                         "full-mantissa",
                                                         "confident-label",
                                                         "unlikely-label",
                                                         "vocabulary-chunks",
                                                         "row-chunks",
                                                         "common-offset",
                                                         "entropy-trap",
                                                         "lse-zero",
                                                         "ex2-underflow",
                                                         "subnormal",
                                                         "temperatures",
                                                         "mean"};
constexpr size_t kOfEach = 8;
// A target that compiles for each shape took 2 to 25 s each, in at most kInferenceShapes shapes.
constexpr std::chrono::milliseconds kMostTime{30'000}, kMostTimeCompiling{90'000}, kLeastTime{2'000};
// Judging takes 3 s on 2 cores, at most, where it was measured. It has a minute at least, and three
// timeouts: who has a slower machine has longer ones.
constexpr std::chrono::milliseconds kJudgingTime{60'000};
constexpr int kJudgingTimeouts = 3;

CaseRunner RunnerOf(const CampaignOptions& options, const std::string& target,
                    const std::atomic<bool>& interrupt) {
  WorkerSpec spec{.target = target, .program = options.program};
  if (options.palette != 0) spec.first_call = options.first_call_timeout;
  return {std::move(spec), options.GetCaseTimeout(), &interrupt};
}

// The recipes, one in a line: regimes take turns, so that what time allows has some of each.
std::vector<std::string> RecipesOf(const CampaignOptions& options, const Capabilities& can) {
  const TargetDraws draws(
      can, RegimesOf(options),
      Palette::OfSmall(options.seed, kInferenceShapes, can, kMostLogits, kMostProducts));
  std::vector<std::vector<std::string>> drawn;
  const auto add = [&](const CaseOptions& of, size_t most) {
    const Plan plan(of, {});
    std::vector<std::string>& lines = drawn.emplace_back();
    for (size_t i = 0; i < kDrawsEach * most && lines.size() < most; ++i) {
      const Recipe recipe = draws.Of(plan.Blind(static_cast<int64_t>(i)));
      if (recipe.n * recipe.v > kMostLogits || recipe.n * recipe.v * recipe.h > kMostProducts) continue;
      lines.push_back(Format(recipe) + "\n");
    }
  };
  for (const std::string_view regime : kTellApart) {
    CaseOptions of = options;
    of.regime = regime;
    add(of, kOfEach);
  }
  add(options, kInferenceCases - kOfEach * kTellApart.size());
  std::vector<std::string> all;
  for (size_t turn = 0; turn < kInferenceCases; ++turn) {
    for (std::vector<std::string>& lines : drawn) {
      if (turn < lines.size()) all.push_back(std::move(lines[turn]));
    }
  }
  return all;
}

// How long cases may be run: a fifth of a budget of time, or kMostTime; with a budget of cases and a
// palette, which is for targets that compile, kMostTimeCompiling.
std::chrono::milliseconds TimeOf(const CampaignOptions& options) {
  const Budget budget = options.GetBudget();
  if (budget.cases > 0) return options.Compiles() ? kMostTimeCompiling : kMostTime;
  return std::min(kMostTime, std::max(budget.time / 5, kLeastTime));
}

// Why nothing can be inferred of what the worker answered.
std::string WhyNot(const Judged& judged) {
  return !judged.error.empty()                  ? judged.error
         : !judged.result.findings.empty()      ? judged.result.findings.front().what
         : !judged.result.harness_fault.empty() ? judged.result.harness_fault
                                                : "the worker gave no answer";
}

}  // namespace

ExitStatus UndeclaredContract(const CampaignOptions& options, const std::string& target,
                              const std::atomic<bool>& interrupt, std::string* contract,
                              std::string* error) {
  contract->clear();
  CaseRunner runner = RunnerOf(options, target, interrupt);
  if (!runner.Ready(error)) {
    return interrupt.load() ? ExitStatus::kInterrupted : ExitStatus::kUnavailable;
  }
  const std::optional<Json> json = Json::Parse(runner.hello().description, error);
  const Json* const own = json ? json->Find("contract") : nullptr;
  const Json::Object* const keys = own != nullptr ? own->as_object() : nullptr;
  if (own != nullptr && keys == nullptr) return ExitStatus::kClean;  // a named one
  std::string words(kUndeclared);
  for (const auto& [key, value] : keys != nullptr ? *keys : Json::Object()) {
    const std::string* const dtype = value.as_string();
    const Json::Object* const outputs = key == "outputs" ? value.as_object() : nullptr;
    if (dtype != nullptr && key.starts_with("upstream_")) {
      words += "," + key + "=" + *dtype;
    } else if (outputs != nullptr) {
      for (const auto& [output, of] : *outputs) {
        if (of.as_string() != nullptr) words += "," + key + "." + output + "=" + *of.as_string();
      }
    } else {
      return ExitStatus::kClean;
    }
  }
  *contract = std::move(words);
  return ExitStatus::kClean;
}

Inference InferFor(const CampaignOptions& options, const std::string& target,
                   const std::atomic<bool>& interrupt) {
  const auto incomplete = [](const std::string& why) {
    Inference none;
    none.incomplete = why;
    return none;
  };
  std::string error;
  CaseRunner runner = RunnerOf(options, target, interrupt);
  if (!runner.Ready(&error)) return incomplete(error);
  const auto description = ParseDescription(runner.hello().description, &error);
  if (!description) return incomplete(error);
  const std::vector<std::string> recipes = RecipesOf(options, description->capabilities);
  if (recipes.empty()) return incomplete("no regime of the campaign has a case so small");
  // A target that hangs is found out by one case, whose deadline is short.
  Request first;
  first.recipe = recipes.front().substr(0, recipes.front().size() - 1);
  first.seed = options.seed;
  const Judged alone = runner.RunOnce(first, options.GetCaseTimeout());
  if (alone.kind != Judged::Kind::kJudged || IsDeath(alone.result)) return incomplete(WhyNot(alone));
  Request request;
  for (const std::string& recipe : recipes) request.recipe += recipe;
  request.seed = options.seed;
  request.infer_within = TimeOf(options).count();
  const std::chrono::milliseconds timeout = options.GetCaseTimeout();
  const Judged judged = runner.RunOnce(
      request, TimeOf(options) + timeout + std::max(kJudgingTime, kJudgingTimeouts * timeout));
  if (judged.kind != Judged::Kind::kJudged || judged.result.inference.empty()) {
    return incomplete(WhyNot(judged));
  }
  const std::optional<Json> json = Json::Parse(judged.result.inference, &error);
  const std::optional<Inference> said =
      json ? FromJson<Inference>(*json, "inference", &error) : std::nullopt;
  return said ? *said : incomplete(error);
}

}  // namespace plumbline::fuzz

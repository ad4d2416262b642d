// SPDX-License-Identifier: Apache-2.0
#include "fuzz/compare/accuracy.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/campaign/search/within.h"
#include "fuzz/campaign/tally.h"
#include "fuzz/recipe/ordinary.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/description.h"
#include "fuzz/worker/case_runner.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

struct ProblemShape {
  int64_t n, v, h;
};
// Some 3e7 products each, which the baselines of a black box take half a second for. One vocabulary and
// one hidden size are no multiple of anything.
constexpr std::array<ProblemShape, 4> kProblemShapes = {
    {{64, 2048, 256}, {48, 1000, 512}, {32, 4099, 192}, {16, 3001, 515}}};

struct ValueKind {
  Values values;
  int exp;
};
constexpr std::array<ValueKind, 3> kValueKinds = {
    {{Values::kGaussian, 1}, {Values::kConfident, 8}, {Values::kMassive, 2}}};

double MiddleOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The least of them that 99 of 100 do not pass.
double RankOf99(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t rank = (99 * values.size() + 99) / 100 - 1;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(values, at);
  return *at;
}

// What was seen of one output, problem by problem.
struct OutputRatios {
  std::vector<double> rms, units;
  double largest = 0;
  int64_t problems = 0;

  void Add(const HonestRatio& honest) {
    rms.push_back(honest.rms);
    largest = std::max(largest, honest.largest);
    for (const UnitRatio& unit : honest.units) units.push_back(unit.ratio);
  }
};

std::vector<OutputAccuracy> Summarized(std::map<std::string, OutputRatios> seen) {
  std::vector<OutputAccuracy> out;
  for (const oracle::Output output : oracle::kOutputs) {
    const auto found = seen.find(std::string(oracle::Name(output)));
    if (found == seen.end()) continue;
    OutputRatios& of = found->second;
    OutputAccuracy& to = out.emplace_back();
    to.output = found->first;
    to.problems = of.problems;
    to.units = static_cast<int64_t>(of.units.size());
    to.typical = MiddleOf(std::move(of.rms));
    to.p99 = RankOf99(std::move(of.units));
    to.largest = of.largest;
  }
  return out;
}

}  // namespace

std::vector<SkippedCases> SkippedOf(const std::map<std::string, int64_t>& reasons) {
  std::vector<SkippedCases> all;
  for (const auto& [reason, cases] : reasons) all.push_back({reason, cases});
  std::ranges::stable_sort(all, std::greater<>(), &SkippedCases::cases);
  return all;
}

std::vector<Recipe> AccuracyProblems(int64_t count, uint64_t seed) {
  std::vector<Recipe> problems;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const ValueKind& kind = kValueKinds[at % kValueKinds.size()];
    const ProblemShape& shape = kProblemShapes[at / kValueKinds.size() % kProblemShapes.size()];
    Recipe& recipe = problems.emplace_back();
    recipe.seed = Mix(seed, static_cast<uint64_t>(i));
    recipe.n = shape.n;
    recipe.v = shape.v;
    recipe.h = shape.h;
    recipe.values = kind.values;
    recipe.exp = kind.exp;
    recipe.grads = Grads::kRandom;
    recipe.entropy_grads = Grads::kRandom;
    KeepSensible(&recipe);
  }
  return problems;
}

Accuracy MeasureAccuracy(const std::string& target, const AccuracyOptions& options,
                         const std::atomic<bool>& interrupt) {
  Accuracy accuracy;
  WorkerSpec spec{.target = HeldTo(std::string(SplitTarget(target).first), options.yardstick),
                  .program = options.program,
                  .first_call = options.first_call_timeout};
  CaseRunner runner(std::move(spec), options.case_timeout, &interrupt);
  if (!runner.Ready(&accuracy.incomplete)) return accuracy;
  const auto description = ParseDescription(runner.hello().description, &accuracy.incomplete);
  if (!description) return accuracy;
  std::map<std::string, OutputRatios> seen;
  std::map<std::string, int64_t> skipped;
  std::vector<double> seconds;
  for (const Recipe& drawn : AccuracyProblems(options.problems, options.seed)) {
    ++accuracy.problems;
    const Recipe recipe = KeepWithin(description->capabilities, drawn);
    if (!IsOrdinary(recipe)) {
      ++skipped["within what it can do no batch of ordinary rows is left"];
      continue;
    }
    Request request = RequestFor(Format(recipe), options.seed);
    request.unit_ratios = true;
    const Judged judged = runner.RunOnce(request, runner.DeadlineOf(request));
    if (judged.kind != Judged::Kind::kJudged) {
      accuracy.incomplete = interrupt.load() ? "it was interrupted" : judged.error;
      break;
    }
    const CaseResult& result = judged.result;
    if (!result.harness_fault.empty()) {
      accuracy.incomplete = result.harness_fault;
      break;
    }
    if (result.honest.empty()) {
      ++skipped[!result.skip_reason.empty() ? SkipGroup(result.skip_reason)
                : !result.findings.empty()  ? result.findings.front().Signature()
                                            : "no output is compared"];
      continue;
    }
    ++accuracy.judged;
    accuracy.changed += recipe != drawn ? 1 : 0;
    seconds.push_back(result.target_seconds);
    std::set<std::string> outputs;
    for (const HonestRatio& honest : result.honest) {
      seen[honest.output].Add(honest);
      if (outputs.insert(honest.output).second) ++seen[honest.output].problems;
    }
  }
  accuracy.skipped = SkippedOf(skipped);
  accuracy.seconds = MiddleOf(std::move(seconds));
  accuracy.outputs = Summarized(std::move(seen));
  return accuracy;
}

void Fields(FieldVisitor& io, SkippedCases& skipped) {
  io("reason", skipped.reason);
  io("cases", skipped.cases);
}

void Fields(FieldVisitor& io, OutputAccuracy& a) {
  io("output", a.output);
  io("problems", a.problems);
  io("units", a.units);
  io("typical", a.typical);
  io("p99", a.p99);
  io("largest", a.largest);
}

void Fields(FieldVisitor& io, Accuracy& a) {
  io("problems", a.problems);
  io("judged", a.judged);
  io("changed", a.changed);
  io.IfSet("skipped", a.skipped);
  io("seconds", a.seconds);
  io("outputs", a.outputs);
  io.IfSet("incomplete", a.incomplete);
}

}  // namespace plumbline::fuzz

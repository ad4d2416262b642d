// SPDX-License-Identifier: Apache-2.0
#include "fuzz/compare/accuracy.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "fuzz/base/median.h"
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

// The least of the values that 99 of 100 do not pass; 0 of none.
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
  int64_t problems = 0, dropped = 0;
};

// Adds a problem's output, or both parts of one.
void AddParts(std::span<const HonestRatio> parts, OutputRatios* to) {
  double rms = 0;
  for (const HonestRatio& part : parts) {
    const double worst = part.dropped > 0 ? std::numeric_limits<double>::infinity() : 0;
    rms = std::max({rms, part.rms, worst});
    to->largest = std::max({to->largest, part.largest, worst});
    to->units.insert(to->units.end(), part.units.begin(), part.units.end());
    to->units.insert(to->units.end(), static_cast<size_t>(part.dropped), worst);
    to->dropped += part.dropped;
  }
  to->rms.push_back(rms);
  ++to->problems;
}

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
    to.dropped = of.dropped;
    to.typical = Median(std::move(of.rms));
    to.p99 = RankOf99(std::move(of.units));
    to.largest = of.largest;
  }
  return out;
}

// More than an error of values, which is what is measured here.
bool IsFailure(const Finding& finding) {
  using enum FindingKind;
  switch (finding.kind) {
    case kNonFinite:
    case kUnwritten:
    case kGuardBand:
    case kInputWritten:
    case kStatus:
    case kCrash:
    case kHang:
      return true;
    default:
      return false;
  }
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
  accuracy.problems = options.problems;
  WorkerSpec spec{.target = HeldTo(std::string(SplitTarget(target).first), options.yardstick),
                  .program = options.program,
                  .first_call = options.first_call_timeout};
  CaseRunner runner(std::move(spec), options.case_timeout, &interrupt);
  if (!runner.Ready(&accuracy.incomplete)) return accuracy;
  const auto description = ParseDescription(runner.hello().description, &accuracy.incomplete);
  if (!description) return accuracy;
  std::map<std::string, OutputRatios> seen;
  std::map<std::string, int64_t> skipped, failed;
  std::map<std::string, std::string> first_of;  // failures, by signature: what the first one was
  std::vector<double> seconds;
  for (const Recipe& drawn : AccuracyProblems(options.problems, options.seed)) {
    const Recipe recipe = KeepWithin(description->capabilities, drawn);
    if (!IsOrdinary(recipe)) {
      ++skipped["within what it can do no batch of ordinary rows is left"];
      continue;
    }
    Request request = RequestFor(Format(recipe), options.seed);
    request.unit_ratios = true;
    const Judged judged = runner.Run(request);
    if (judged.kind != Judged::Kind::kJudged || !judged.result.harness_fault.empty()) {
      accuracy.incomplete = interrupt.load()                       ? "it was interrupted"
                            : judged.kind != Judged::Kind::kJudged ? judged.error
                                                                   : judged.result.harness_fault;
      break;
    }
    const CaseResult& result = judged.result;
    const auto failure = std::ranges::find_if(result.findings, IsFailure);
    if (failure != result.findings.end()) {
      const std::string signature = failure->Signature();
      ++failed[signature + ": " + first_of.try_emplace(signature, failure->what).first->second];
    }
    if (result.honest.empty()) {
      if (failure != result.findings.end()) continue;
      ++skipped[result.skip_reason.empty() ? "no output is compared" : SkipGroup(result.skip_reason)];
      continue;
    }
    ++accuracy.judged;
    accuracy.changed += recipe != drawn ? 1 : 0;
    if (recipe == drawn) seconds.push_back(result.first_run_seconds);
    // The parts of one output stand together.
    for (size_t first = 0, next = 0; first < result.honest.size(); first = next) {
      const std::string& output = result.honest[first].output;
      while (next < result.honest.size() && result.honest[next].output == output) ++next;
      AddParts(std::span(result.honest).subspan(first, next - first), &seen[output]);
    }
  }
  accuracy.skipped = SkippedOf(skipped);
  accuracy.failed = SkippedOf(failed);
  accuracy.seconds = Median(std::move(seconds));
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
  io.IfSet("dropped", a.dropped);
  io("typical", a.typical);
  io("p99", a.p99);
  io("largest", a.largest);
}

void Fields(FieldVisitor& io, Accuracy& a) {
  io("problems", a.problems);
  io("judged", a.judged);
  io("changed", a.changed);
  io.IfSet("skipped", a.skipped);
  io.IfSet("failed", a.failed);
  io("seconds", a.seconds);
  io("outputs", a.outputs);
  io.IfSet("incomplete", a.incomplete);
}

}  // namespace plumbline::fuzz

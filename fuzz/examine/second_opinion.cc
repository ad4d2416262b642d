// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/second_opinion.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::ArbiterValue;
using oracle::Element;
using oracle::Output;
using oracle::Watched;

// Seeds the draws of SpreadElements, which must differ from those of RandomElements.
constexpr uint64_t kSpreadStream = 1000;

bool Whole(uint64_t seed) { return Mix(seed, kSpreadStream - 1) % 4 == 0; }

int64_t ColumnsOf(const kernel::Results& results, Output output) {
  const auto& tensor = oracle::Find(results, output);
  return tensor && tensor->rank == 2 ? tensor->shape[1] : 1;
}

// The number of elements of an output; 0 if it is absent.
int64_t ElementsOf(const kernel::Results& results, Output output) {
  const auto& tensor = oracle::Find(results, output);
  return tensor ? tensor->size() : 0;
}

}  // namespace

bool Agrees(const Element& e, const ArbiterValue& a) {
  using Class = ArbiterValue::Class;
  switch (e.expect) {
    case oracle::Expect::kNaN:
    case oracle::Expect::kEmptyLse:
      return a.kind == Class::kNaN;
    case oracle::Expect::kPlusInf:
      return a.kind == Class::kPlusInf;
    case oracle::Expect::kMinusInf:
      return a.kind == Class::kMinusInf;
    case oracle::Expect::kPlusZero:
      return a.kind == Class::kFinite && a.high == 0;
    case oracle::Expect::kUnspecified:
      return true;
    default:
      return a.kind == Class::kFinite &&
             std::fabs((e.value - a.high) - a.low) <= e.radius * (1 + 0x1p-40);
  }
}

std::string TooDear(double cost) {
  return Text("it would take about %.0f s", std::ceil(cost / kArbiterCostASecond));
}

bool FailsByArbiter(Output output, const Element& expected, double got, const ArbiterValue& value,
                    const oracle::Promises& promises) {
  if (value.kind != ArbiterValue::Class::kFinite) return true;
  Element exact = expected;
  exact.value = value.high;
  exact.radius = std::fabs(value.low);
  return oracle::Judge(output, exact, got, promises).verdict == oracle::Verdict::kFail;
}

std::vector<Watched> RandomElements(const kernel::Results& results, uint64_t seed, int count) {
  std::vector<Output> present;
  for (Output o : oracle::kOutputs) {
    if (ElementsOf(results, o) > 0) present.push_back(o);
  }
  std::vector<Watched> elements;
  for (int i = 0; i < count && !present.empty(); ++i) {
    const uint64_t random = Mix(seed, static_cast<uint64_t>(i));
    const Output output = present[random % present.size()];
    const auto all = static_cast<uint64_t>(ElementsOf(results, output));
    const auto element = static_cast<int64_t>((random >> 8) % all);
    const int64_t columns = ColumnsOf(results, output);
    elements.push_back({output, element / columns, element % columns, {}, 0});
  }
  return elements;
}

std::vector<Watched> SpreadElements(const kernel::Problem& problem, const kernel::Results& results,
                                    uint64_t seed) {
  uint64_t draws = kSpreadStream;
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(Mix(seed, draws++) % static_cast<uint64_t>(below));
  };
  std::vector<Watched> elements;
  const auto add = [&](Output output, int64_t row, int count) {
    if (ElementsOf(results, output) == 0) return;
    for (int i = 0; i < count; ++i) {
      elements.push_back({output, row, draw(ColumnsOf(results, output)), {}, 0});
    }
  };
  if (problem.rows() == 0) return elements;
  for (int repeat = 0; repeat < (Whole(seed) ? 2 : 1); ++repeat) {
    const int64_t row = draw(problem.rows());
    for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse}) add(o, row, 1);
    add(Output::kGradHidden, row, 4);
  }
  if (!Whole(seed)) return elements;
  add(Output::kLoss, 0, 1);
  for (int i = 0; i < 6 && problem.vocab() > 0; ++i) {
    add(Output::kGradWeight, draw(problem.vocab()), 1);
  }
  return elements;
}

double SpreadCost(uint64_t seed, int64_t rows, int64_t vocab, int64_t hidden_size) {
  const double row = 2000 + static_cast<double>(vocab) * (200 + 1.5 * static_cast<double>(hidden_size));
  return row * static_cast<double>(Whole(seed) ? rows : std::min<int64_t>(rows, 1));
}

SecondOpinion::SecondOpinion(const kernel::Problem& problem, double cost,
                             const oracle::Promises& promises, const oracle::RoundedSteps& steps)
    : arbiter_(problem, steps), left_(cost), promises_(promises) {}

std::string SecondOpinion::Ask(const Watched& w, bool failed, std::string* digits,
                               std::string* silent) {
  const double cost = arbiter_.Cost(w.output, w.row, w.column);
  if (cost > left_) {
    if (silent != nullptr && !Planted(HarnessDefect::kSilenceIsKept)) *silent = TooDear(cost);
    return {};
  }
  left_ -= cost;
  ++asked_;
  const ArbiterValue value = arbiter_.Evaluate(w.output, w.row, w.column);
  if (digits != nullptr) *digits = value.digits;
  const std::string place = Place(oracle::Name(w.output), w.row, w.column);
  if (!Agrees(w.expected, value) && !Planted(HarnessDefect::kArbiterIgnored)) {
    return place +
           Text(": reference %.17g, radius %.3g; arbiter ", w.expected.value, w.expected.radius) +
           value.digits;
  }
  if (!failed || FailsByArbiter(w.output, w.expected, w.got, value, promises_)) return {};
  return place + Text(": %.17g fails by the reference and passes by the arbiter, ", w.got) +
         value.digits;
}

std::string SecondOpinion::AskAll(std::span<const Watched> elements) {
  for (const Watched& element : elements) {
    std::string fault = Ask(element, /*failed=*/false, nullptr);
    if (!fault.empty()) return fault;
  }
  return {};
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/second_opinion.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz/mix.h"
#include "fuzz/text.h"
#include "oracle/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::ArbiterValue;
using oracle::Element;
using oracle::Output;

bool Agrees(const Element& e, const ArbiterValue& a) {
  using Class = ArbiterValue::Class;
  switch (e.expect) {
    case oracle::Expect::kNaN:
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

}  // namespace

SecondOpinion::SecondOpinion(const kernel::Problem& problem, const oracle::Expectation& expectation,
                             double cost)
    : arbiter_(problem), expectation_(expectation), left_(cost) {}

std::string SecondOpinion::Ask(Output output, int64_t row, int64_t column, const double* got,
                               std::string* digits) {
  const double cost = arbiter_.Cost(output, row, column);
  if (cost > left_) return {};
  left_ -= cost;
  const ArbiterValue value = arbiter_.Evaluate(output, row, column);
  if (digits != nullptr) *digits = value.digits;
  const Element& e = expectation_[output].at(row, column);
  const std::string place = Place(oracle::Name(output), row, column);
  if (!Agrees(e, value)) {
    return place + Text(": reference %.17g, radius %.3g; arbiter ", e.value, e.radius) + value.digits;
  }
  if (got == nullptr || value.kind != ArbiterValue::Class::kFinite) return {};
  Element exact = e;
  exact.value = value.high;
  exact.radius = std::fabs(value.low);
  if (oracle::Judge(output, exact, *got).verdict == oracle::Verdict::kFail) return {};
  return place + Text(": %.17g fails by the reference and passes by the arbiter, ", *got) +
         value.digits;
}

std::string SecondOpinion::AskRandom(uint64_t seed, int count) {
  std::vector<Output> present;
  for (Output o : oracle::kOutputs) {
    if (!expectation_[o].elements.empty()) present.push_back(o);
  }
  for (int i = 0; i < count && !present.empty(); ++i) {
    const uint64_t random = Mix(seed, static_cast<uint64_t>(i));
    const Output output = present[random % present.size()];
    const auto& tensor = expectation_[output];
    const auto element = static_cast<int64_t>((random >> 8) % tensor.elements.size());
    std::string fault =
        Ask(output, element / tensor.columns, element % tensor.columns, nullptr, nullptr);
    if (!fault.empty()) return fault;
  }
  return {};
}

}  // namespace plumbline::fuzz

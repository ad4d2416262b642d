// SPDX-License-Identifier: Apache-2.0
//
// The verdict of one element, by the rules of oracle/verdict/verdict.h, for the host and, as every
// function here is constexpr, for a device's threads.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "oracle/defect.h"
#include "oracle/output.h"

namespace plumbline::oracle {

constexpr JudgedElement JudgeFinite(Output output, const Element& e, double got) {
  constexpr bool kPasses = kPlanted == OracleDefect::kNaNPasses;
  if (!std::isfinite(got) && !kPasses) {
    return {Verdict::kFail, Failure::kNonFinite, std::numeric_limits<double>::infinity()};
  }
  const double error = std::fabs(got - e.value) - e.radius;
  const double excess = error <= 0 ? 0 : error;  // stays NaN; max(0, error) would drop it
  const double tightness = excess == 0 ? 0 : excess / e.bound;
  if ((output == Output::kLogprob && got > 0) || (output == Output::kEntropy && got < 0)) {
    return {Verdict::kFail, Failure::kSign, tightness > 1 ? tightness : 1};
  }
  if (e.expect == Expect::kVacuous) return {Verdict::kVacuous, Failure::kNone, 0};
  if (kPasses ? excess > e.bound : !(excess <= e.bound)) {
    return {Verdict::kFail, Failure::kBound, tightness};
  }
  return {Verdict::kPass, Failure::kNone, tightness};
}

constexpr JudgedElement JudgeElement(Output output, const Element& e, double got) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr JudgedElement kPass;
  constexpr JudgedElement kNonFinite = {Verdict::kFail, Failure::kNonFinite, kInfinity};
  constexpr JudgedElement kNotZero = {Verdict::kFail, Failure::kNotZero, kInfinity};
  switch (e.expect) {
    case Expect::kFinite:
    case Expect::kVacuous:
      return JudgeFinite(output, e, got);
    case Expect::kPlusZero:
      return std::bit_cast<uint64_t>(got) == 0 ? kPass : kNotZero;
    case Expect::kNaN:
      return std::isnan(got) ? kPass : kNonFinite;
    case Expect::kPlusInf:
      return got == kInfinity ? kPass : kNonFinite;
    case Expect::kMinusInf:
      return got == -kInfinity ? kPass : kNonFinite;
    case Expect::kUnspecified:
      break;
  }
  return {Verdict::kUnspecified, Failure::kNone, 0};
}

}  // namespace plumbline::oracle

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

constexpr JudgedElement JudgeFinite(Output output, const Element& e, double got, bool signs) {
  constexpr bool kPasses = kPlanted == OracleDefect::kNaNPasses;
  if (!std::isfinite(got) && !kPasses) {
    return {Verdict::kFail, Failure::kNonFinite, std::numeric_limits<double>::infinity()};
  }
  const double error = std::fabs(got - e.value) - e.radius;
  const double excess = error <= 0 ? 0 : error;  // stays NaN; max(0, error) would drop it
  const double tightness = excess == 0 ? 0 : excess / e.bound;
  const bool wrong_sign =
      (output == Output::kLogprob && got > 0) || (output == Output::kEntropy && got < 0);
  if (signs && wrong_sign) return {Verdict::kFail, Failure::kSign, tightness > 1 ? tightness : 1};
  if (e.expect == Expect::kVacuous) return {Verdict::kVacuous, Failure::kNone, 0};
  if (kPasses ? excess > e.bound : !(excess <= e.bound)) {
    return {Verdict::kFail, Failure::kBound, tightness};
  }
  return {Verdict::kPass, Failure::kNone, tightness};
}

// A pass that shows which side of a convention the target is on. Where one side does not exclude the
// other, the definition's says nothing.
constexpr JudgedElement Following(Convention convention, bool alternative) {
  JudgedElement judged;
  if (alternative || TextOf(convention).exclusive) judged.conventions.Note(convention, alternative);
  return judged;
}

// An element that a convention decides, of a target that may follow either side.
constexpr JudgedElement JudgeConvention(const Element& e, double got) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool nan = std::isnan(got), zero = got == 0;
  switch (e.expect) {
    case Expect::kPlusZero:
      if (zero) return Following(Convention::kZeroSign, std::bit_cast<uint64_t>(got) != 0);
      return {Verdict::kFail, Failure::kNotZero, kInfinity};
    case Expect::kEmptyLse:
      if (nan || got == -kInfinity) return Following(Convention::kEmptyLse, !nan);
      return {Verdict::kFail, Failure::kNonFinite, kInfinity};
    case Expect::kEmptyMean:
      if (nan || zero) return Following(Convention::kEmptyMean, nan);
      return {Verdict::kFail, std::isfinite(got) ? Failure::kBound : Failure::kNonFinite, kInfinity};
    default:
      return Following(Convention::kIgnoredRow, !zero);
  }
}

constexpr bool Conventional(Expect expect) {
  return expect == Expect::kPlusZero || expect == Expect::kEmptyLse || expect == Expect::kEmptyMean ||
         expect == Expect::kIgnored;
}

constexpr JudgedElement JudgeElement(Output output, const Element& e, double got,
                                     const Promises& promises) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr JudgedElement kPass;
  constexpr JudgedElement kNonFinite = {Verdict::kFail, Failure::kNonFinite, kInfinity};
  constexpr JudgedElement kNotZero = {Verdict::kFail, Failure::kNotZero, kInfinity};
  const bool either = !promises.definition || kPlanted == OracleDefect::kLatitudeForAll;
  if (either && Conventional(e.expect)) return JudgeConvention(e, got);
  switch (e.expect) {
    case Expect::kFinite:
    case Expect::kVacuous:
    case Expect::kEmptyMean:
    case Expect::kIgnored:
      return JudgeFinite(output, e, got, promises.signs);
    case Expect::kPlusZero:
      return std::bit_cast<uint64_t>(got) == 0 ? kPass : kNotZero;
    case Expect::kNaN:
    case Expect::kEmptyLse:
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

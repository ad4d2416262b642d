// SPDX-License-Identifier: Apache-2.0
//
// Vocabulary of the oracle: the outputs that are judged, the requirement of an output element, and its
// verdict.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "oracle/convention.h"

namespace plumbline::oracle {

enum class Output : uint8_t { kLogprob, kLoss, kEntropy, kLse, kGradHidden, kGradWeight };

inline constexpr std::array kOutputs = {Output::kLogprob, Output::kLoss,       Output::kEntropy,
                                        Output::kLse,     Output::kGradHidden, Output::kGradWeight};

// "logprob", "loss", "entropy", "lse", "grad_hidden", "grad_weight".
constexpr std::string_view Name(Output output) {
  constexpr std::string_view kNames[] = {"logprob", "loss",        "entropy",
                                         "lse",     "grad_hidden", "grad_weight"};
  return kNames[static_cast<int>(output)];
}

// The kinds of requirement that kernel/OPERATION.md has for one element (ERROR-BUDGET.md, "Vacuous and
// unspecified"; NON-FINITE.md).
enum class Expect : uint8_t {
  kFinite,    // |got - value| <= bound + radius
  kPlusZero,  // +0, bit for bit
  kNaN,       // any NaN
  kPlusInf,
  kMinusInf,
  kVacuous,      // must be finite, but the bound says nothing: never a pass
  kUnspecified,  // any value
  // Where a convention decides (oracle/convention.h); value, radius and bound are 0.
  kEmptyLse,   // NaN, or by convention -infinity
  kEmptyMean,  // 0 of either sign, or by convention NaN
  kIgnored,    // 0 of either sign, or by convention any value
};

struct Element {
  Expect expect = Expect::kUnspecified;
  double value = 0;   // the reference's value, in fp64
  double radius = 0;  // the reference's own error is at most this (ERROR-BUDGET.md, "The radius")
  double bound = 0;   // the largest error that the contract allows, >= 0
};

// kSuspect is a case's: it breaks what is assumed of a target that does not declare it, and nothing
// that it declares.
enum class Verdict : uint8_t { kPass, kFail, kVacuous, kUnspecified, kSkipped, kSuspect };

enum class Failure : uint8_t {
  kNone,
  kBound,      // finite, and farther away than bound + radius
  kNonFinite,  // NaN or infinite where a finite value is required, or the reverse
  kSign,       // logprob > 0 or entropy < 0 of a target that promises signs
  kNotZero,    // +0 is required, bit for bit
};

struct JudgedElement {
  Verdict verdict = Verdict::kPass;
  Failure failure = Failure::kNone;
  double tightness = 0;  // excess error over bound, >= 0, may be infinite (oracle/verdict/verdict.h)
  ConventionsSeen conventions = {};
};

}  // namespace plumbline::oracle

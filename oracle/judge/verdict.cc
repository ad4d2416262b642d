// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "oracle/budget/inputs.h"
#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

JudgedElement Fail(Failure failure, double tightness) { return {Verdict::kFail, failure, tightness}; }

JudgedElement Require(bool met) { return met ? JudgedElement{} : Fail(Failure::kNonFinite, kInfinity); }

bool WrongSign(Output output, double got) {
  return (output == Output::kLogprob && got > 0) || (output == Output::kEntropy && got < 0);
}

JudgedElement JudgeFinite(Output output, const Element& e, double got) {
  const bool passes = kPlanted == OracleDefect::kNaNPasses;
  if (!std::isfinite(got) && !passes) return Fail(Failure::kNonFinite, kInfinity);
  const double error = std::fabs(got - e.value) - e.radius;
  const double excess = error <= 0 ? 0 : error;  // stays NaN; max(0, error) would drop it
  const double tightness = excess == 0 ? 0 : excess / e.bound;
  if (WrongSign(output, got)) return Fail(Failure::kSign, std::max(1.0, tightness));
  if (e.expect == Expect::kVacuous) return {Verdict::kVacuous, Failure::kNone, 0};
  if (passes ? excess > e.bound : !(excess <= e.bound)) return Fail(Failure::kBound, tightness);
  return {Verdict::kPass, Failure::kNone, tightness};
}

// Failures come before passes, then the larger tightness.
bool Worse(const JudgedElement& a, const JudgedElement& b) {
  const bool a_fails = a.failure != Failure::kNone, b_fails = b.failure != Failure::kNone;
  return a_fails != b_fails ? a_fails : a.tightness > b.tightness;
}

OutputVerdict JudgeTensor(Output output, const kernel::Tensor& tensor, const ExpectedTensor& expected) {
  OutputVerdict v;
  v.output = output;
  const kernel::ConstTensor view = kernel::AsConst(tensor);
  JudgedElement worst{Verdict::kPass, Failure::kNone, -1};
  for (int64_t i = 0; i < expected.rows; ++i) {
    for (int64_t j = 0; j < expected.columns; ++j) {
      const Element& e = expected.at(i, j);
      const double got = ReadElement(view, i, j);
      const JudgedElement judged = Judge(output, e, got);
      switch (judged.verdict) {
        case Verdict::kFail:
          ++v.fail;
          break;
        case Verdict::kVacuous:
          ++v.vacuous;
          break;
        case Verdict::kUnspecified:
          ++v.unspecified;
          break;
        default:
          ++v.pass;
      }
      v.tightness = std::max(v.tightness, judged.tightness);
      const bool counts = judged.verdict == Verdict::kPass || judged.verdict == Verdict::kFail;
      if (counts && Worse(judged, worst)) {
        worst = judged;
        v.row = i;
        v.column = j;
        v.failure = judged.failure;
        v.got = got;
        v.expected = e;
      }
    }
  }
  return v;
}

}  // namespace

std::string_view Name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"pass", "fail", "vacuous", "unspecified", "skipped"};
  return kNames[static_cast<int>(verdict)];
}

std::string_view Name(Failure failure) {
  constexpr std::string_view kNames[] = {"none", "bound", "non-finite", "sign", "not-zero"};
  return kNames[static_cast<int>(failure)];
}

JudgedElement Judge(Output output, const Element& e, double got) {
  switch (e.expect) {
    case Expect::kFinite:
    case Expect::kVacuous:
      return JudgeFinite(output, e, got);
    case Expect::kPlusZero:
      return std::bit_cast<uint64_t>(got) == 0 ? JudgedElement{} : Fail(Failure::kNotZero, kInfinity);
    case Expect::kNaN:
      return Require(std::isnan(got));
    case Expect::kPlusInf:
      return Require(got == kInfinity);
    case Expect::kMinusInf:
      return Require(got == -kInfinity);
    case Expect::kUnspecified:
      break;
  }
  return {Verdict::kUnspecified, Failure::kNone, 0};
}

std::vector<OutputVerdict> JudgeAll(const kernel::Results& results, const Expectation& expectation) {
  std::vector<OutputVerdict> verdicts;
  for (Output output : kOutputs) {
    if (const auto& tensor = Find(results, output)) {
      verdicts.push_back(JudgeTensor(output, *tensor, expectation[output]));
    }
  }
  return verdicts;
}

const std::optional<kernel::Tensor>& Find(const kernel::Results& results, Output output) {
  switch (output) {
    case Output::kLogprob:
      return results.logprob;
    case Output::kLoss:
      return results.loss;
    case Output::kEntropy:
      return results.entropy;
    case Output::kLse:
      return results.lse;
    case Output::kGradHidden:
      return results.grad_hidden;
    case Output::kGradWeight:
      break;
  }
  return results.grad_weight;
}

double ReadElement(const kernel::ConstTensor& tensor, int64_t i, int64_t j) {
  return LoadFloat(tensor, i, j);
}

int64_t ReadInt(const kernel::ConstTensor& tensor, int64_t i) { return LoadInt(tensor, i); }

}  // namespace plumbline::oracle

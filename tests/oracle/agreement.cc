// SPDX-License-Identifier: Apache-2.0

#include "tests/oracle/agreement.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oracle/arbiter.h"
#include "oracle/judge/judge.h"

namespace plumbline::oracle {
namespace {

using Class = ArbiterValue::Class;

// Returns why the two cannot both be right, or nothing.
std::string Disagreement(Output output, const Element& e, const ArbiterValue& a, Agreement* agreement) {
  const auto o = static_cast<size_t>(output);
  switch (e.expect) {
    case Expect::kUnspecified:
      ++agreement->unspecified;
      return "";
    case Expect::kPlusZero:
    case Expect::kEmptyMean:
    case Expect::kIgnored:
      ++agreement->special;
      return a.kind == Class::kFinite && a.high == 0 ? "" : "is not zero";
    case Expect::kNaN:
    case Expect::kEmptyLse:
      ++agreement->special;
      return a.kind == Class::kNaN ? "" : "is not NaN";
    case Expect::kPlusInf:
      ++agreement->special;
      return a.kind == Class::kPlusInf ? "" : "is not +inf";
    case Expect::kMinusInf:
      ++agreement->special;
      return a.kind == Class::kMinusInf ? "" : "is not -inf";
    case Expect::kFinite:
    case Expect::kVacuous:
      break;
  }
  if (a.kind != Class::kFinite) return "is not finite";
  ++agreement->finite[o];
  if (e.bound > 0) agreement->radius[o] = std::max(agreement->radius[o], e.radius / e.bound);
  // The subtractions round by 2^-53 of the difference at most.
  const double error = std::fabs((e.value - a.high) - a.low);
  if (error > 0) agreement->attained[o] = std::max(agreement->attained[o], error / e.radius);
  return error <= e.radius * (1 + 0x1p-50) ? "" : "is further away than the radius";
}

}  // namespace

kernel::Results Everything(const kernel::Problem& problem, kernel::DType dtype) {
  using kernel::DType;
  const int64_t n = problem.rows(), v = problem.vocab(), h = problem.hidden_size();
  const kernel::Tensor per_row{nullptr, DType::kF32, 1, {n, 1}, {1, 1}};
  kernel::Results wanted;
  if (problem.reduction == kernel::Reduction::kNone) {
    wanted.logprob = per_row;
  } else {
    wanted.loss = kernel::Tensor{nullptr, DType::kF32, 0, {1, 1}, {1, 1}};
  }
  wanted.entropy = wanted.lse = per_row;
  wanted.grad_hidden = kernel::Tensor{nullptr, dtype, 2, {n, h}, {h, 1}};
  wanted.grad_weight = kernel::Tensor{nullptr, dtype, 2, {v, h}, {h, 1}};
  return wanted;
}

Contract CarefulContract() {
  Contract c;
  c.accumulate = Accumulate::kFp32;
  c.scale = Scale::kAfter;
  c.scale_roundings = 1;
  c.argument_roundings = 1;
  c.shift = Shift::kExactMax;
  c.exp_error = 2;
  c.exp_gradual = true;
  c.log_error_absolute = 0;
  c.log_error_relative = 1.1;
  c.division_error = 1;
  c.tile = 8;
  c.tile_depth = 3;
  c.label_logit_separate = false;
  c.recompute_same_bits = true;
  c.probability = Probability::kRatio;
  c.d_logits = kernel::DType::kF32;
  return c;
}

void Compare(const kernel::Problem& problem, const Contract& contract, int64_t step,
             Agreement* agreement) {
  const Expectation expected = Expected(problem, Everything(problem, problem.hidden.dtype), contract);
  Arbiter arbiter(problem, StepsOf(contract, problem.hidden.dtype));
  for (Output output : kOutputs) {
    const ExpectedTensor& t = expected[output];
    const bool matrix = output == Output::kGradHidden || output == Output::kGradWeight;
    int64_t index = 0;
    if (t.elements.empty()) continue;
    for (int64_t i = 0; i < t.rows; ++i) {
      for (int64_t j = 0; j < t.columns; ++j, ++index) {
        if (matrix && index % step != 0) continue;
        const Element& e = t.at(i, j);
        const ArbiterValue a = arbiter.Evaluate(output, i, j);
        const std::string why = Disagreement(output, e, a, agreement);
        if (why.empty() || !agreement->first.empty()) continue;
        std::ostringstream s;
        s.precision(17);
        s << Name(output) << "[" << i << ", " << j << "]: the arbiter's " << a.digits << " " << why
          << " " << e.radius << "; the reference has " << e.value << ", expect "
          << static_cast<int>(e.expect) << ", bound " << e.bound;
        agreement->first = s.str();
      }
    }
  }
}

}  // namespace plumbline::oracle

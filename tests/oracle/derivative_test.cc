// SPDX-License-Identifier: Apache-2.0
//
// The reference's gradients are derivatives of the objective. Along random directions of hidden and
// weight at once, sum grad_hidden * dh + sum grad_weight * dw must be the change of the objective.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"
#include "tests/oracle/wide_objective.h"

namespace plumbline::oracle {
namespace {

using kernel::Reduction;

double Value(const std::vector<uint32_t>& bits, size_t i) {
  return static_cast<double>(std::bit_cast<float>(bits[i]));
}

SmallProblem Draw(uint64_t seed, Reduction reduction) {
  std::mt19937_64 rng(seed);
  const auto unit = [&rng] { return static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 1000; };
  SmallProblem p;
  p.n = 3, p.v = 1 + static_cast<int64_t>(rng() % 9), p.h = 1 + static_cast<int64_t>(rng() % 4);
  const float scale = std::ldexp(1.0f, static_cast<int>(rng() % 6) - 1);
  std::vector<float> hidden, weight;
  for (int64_t e = 0; e < p.n * p.h; ++e) hidden.push_back(scale * unit());
  for (int64_t e = 0; e < p.v * p.h; ++e) weight.push_back(unit());
  p.hidden = BitsOf(hidden);
  p.weight = BitsOf(weight);
  p.reduction = reduction;
  for (int64_t i = 0; i < p.n; ++i) {
    p.labels.push_back(rng() % 4 == 0 ? -100
                                      : static_cast<int64_t>(rng() % static_cast<uint64_t>(p.v)));
    p.temperature.push_back(std::ldexp(1.5f + unit() / 2, static_cast<int>(rng() % 5) - 2));
    p.grad_entropy.push_back(unit());
  }
  for (int64_t i = 0; i < (reduction == Reduction::kNone ? p.n : 1); ++i) {
    p.grad_logprob.push_back(unit());
  }
  return p;
}

WideInputs Widen(const SmallProblem& p) {
  WideInputs in{p.n, p.v, p.h, {}, {}, {}, {}, p.reduction, {}, {}};
  for (size_t e = 0; e < p.hidden.size(); ++e) in.hidden.push_back(Value(p.hidden, e));
  for (size_t e = 0; e < p.weight.size(); ++e) in.weight.push_back(Value(p.weight, e));
  for (const int64_t label : p.labels) in.label.push_back(label == p.ignore_index ? -1 : label);
  in.temperature.assign(p.temperature.begin(), p.temperature.end());
  in.grad_logprob.assign(p.grad_logprob.begin(), p.grad_logprob.end());
  in.grad_entropy.assign(p.grad_entropy.begin(), p.grad_entropy.end());
  return in;
}

// Fails for a term of dx that is missing or has a wrong sign, for 1/T left out of dz or taken twice,
// for the sign or the divisor of a reduction, for an ignored row that takes part, and for a gradient of
// one row or column that lands in another. The directions are random, so each of these changes the sum.
TEST(Derivative, OfEveryReductionAlongRandomDirections) {
  for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    double largest = 0;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      SmallProblem p = Draw(seed, reduction);
      const kernel::Problem problem = p.View();
      const Expectation e =
          Expected(problem, Everything(problem, kernel::DType::kF32), CarefulContract());
      std::mt19937_64 rng(seed + 1000);
      std::vector<double> hidden_direction, weight_direction;
      double analytic = 0, radius = 0, size = 0;
      const auto along = [&](Output output, int64_t count, std::vector<double>* direction) {
        for (int64_t i = 0; i < count; ++i) {
          const Element& g = e[output].elements[static_cast<size_t>(i)];
          const double d = static_cast<double>(rng() >> 11) * 0x1p-52 - 1;
          direction->push_back(d);
          analytic += g.value * d;
          radius += g.radius * std::fabs(d);
          size += std::fabs(g.value * d);
        }
      };
      along(Output::kGradHidden, p.n * p.h, &hidden_direction);
      along(Output::kGradWeight, p.v * p.h, &weight_direction);
      const double exact = DirectionalDerivative(Widen(p), hidden_direction, weight_direction);
      // The sums above round by at most 2^-53 for each of fewer than 64 products and additions.
      EXPECT_LE(std::fabs(analytic - exact), radius + 128 * 0x1p-53 * size)
          << "reduction " << static_cast<int>(reduction) << " seed " << seed << ": " << analytic
          << " and " << exact;
      EXPECT_LE(radius, 1e-10 * (size + 1)) << "so wide a radius would hide a wrong term";
      largest = std::max(largest, std::fabs(exact));
    }
    EXPECT_GT(largest, 0.1);
  }
}

}  // namespace
}  // namespace plumbline::oracle

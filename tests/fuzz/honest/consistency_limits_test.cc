// SPDX-License-Identifier: Apache-2.0
//
// The rigorous tolerances against kernels that err as much as their contracts let them
// (tests/oracle/simulated_kernel.h), which share no formula with them. None may be inconsistent.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/consistency/consistency.h"
#include "fuzz/problem/owned_problem.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/drawn_kernel.h"
#include "tests/oracle/simulated_kernel.h"

namespace plumbline::fuzz {
namespace {

using oracle::Contract, oracle::Dice, oracle::Ranges;

// The outputs of a simulated kernel as tensors. Its gradients are moved by the rounding to the dtype of
// the inputs, and do not lie on that dtype's grid.
class Outputs {
 public:
  Outputs(const kernel::Problem& p, const oracle::Simulated& got) {
    memory_.reserve(6);
    const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
    // logprob may stand beside a loss, in a dump.
    results.logprob = Room(kernel::DType::kF32, {n}, got.logprob);
    results.entropy = Room(kernel::DType::kF32, {n}, got.entropy);
    results.lse = Room(kernel::DType::kF32, {n}, got.lse);
    if (p.reduction != kernel::Reduction::kNone) {
      results.loss = Room(kernel::DType::kF32, {}, {got.loss});
    }
    results.grad_hidden = Room(kernel::DType::kF32, {n, h}, got.grad_hidden);
    results.grad_weight = Room(kernel::DType::kF32, {v, h}, got.grad_weight);
  }
  kernel::Results results;

 private:
  kernel::Tensor Room(kernel::DType dtype, std::vector<int64_t> shape,
                      const std::vector<double>& values) {
    HostTensor& tensor = memory_.emplace_back(HostTensor::Zeros(dtype, std::move(shape)));
    for (size_t i = 0; i < values.size(); ++i) {
      tensor.SetFloat(static_cast<int64_t>(i), static_cast<float>(values[i]));
    }
    return AsResult(tensor.View());
  }
  std::vector<HostTensor> memory_;
};

struct Reached {
  std::map<std::string, double> of;  // the largest of what is left over its tolerance
  std::map<std::string, int64_t> compared;
};

Reached Attack(uint64_t last, const Ranges& ranges,
               Contract (*draw)(Dice* dice, const Ranges& ranges)) {
  Reached reached;
  for (uint64_t seed = 0; seed < last && !::testing::Test::HasFatalFailure(); ++seed) {
    Dice dice(seed);
    oracle::SmallProblem p = oracle::DrawProblem(&dice, ranges);
    const Contract contract = draw(&dice, ranges);
    // A dimension of equal weights in one problem of three.
    if (dice.OneIn(3)) {
      for (int64_t v = 1; v < p.v; ++v) p.weight[static_cast<size_t>(v * p.h)] = p.weight[0];
    }
    if (dice.OneIn(2)) p.grad_entropy.clear();
    const kernel::Problem problem = p.View();
    ConsistencyOptions options;
    for (const oracle::Output output : {oracle::Output::kGradHidden, oracle::Output::kGradWeight}) {
      options.stored[static_cast<size_t>(output)] = p.dtype;
    }
    for (uint64_t turn = 0; turn < 2; ++turn) {
      const Outputs outputs(problem, oracle::Simulate(problem, contract, 3 * seed + turn));
      for (const ConsistencyCheck& check :
           CheckConsistency(problem, outputs.results, contract, options).checks) {
        const std::string name(check.name);
        reached.compared[name] += check.compared;
        if (check.compared == 0) continue;
        if (check.left > 0) reached.of[name] = std::max(reached.of[name], check.left / check.tolerance);
        EXPECT_NE(check.verdict, ConsistencyVerdict::kWrong)
            << name << ": " << check.what << "; left " << check.left << ", allowed " << check.tolerance
            << "; seed " << seed << " turn " << turn << " N " << p.n << " V " << p.v << " H " << p.h
            << " " << kernel::Name(p.dtype);
        if (::testing::Test::HasFailure()) return reached;
      }
    }
  }
  return reached;
}

// Fails for a tolerance that forgets an error, or that takes a moment of the vocabulary for smaller
// than it can be. Every check must have said something, and some kernel must come near its tolerance:
// a check that is never near has no part in the others' proof.
TEST(ConsistencyLimits, NoKernelOfAContractIsInconsistent) {
  Reached reached = Attack(6000, {}, oracle::DrawContract);
  for (const char* name : {"column-sums", "inner-products", "row-inner-products", "equal-weights",
                           "entropy-range", "loss-sum"}) {
    EXPECT_GT(reached.compared[name], 1000) << name;
    RecordProperty(name, std::to_string(reached.of[name]));
  }
  EXPECT_GT(reached.of["column-sums"], 0.5);
}

// The same for all that a description may declare, and with numbers at the ends of the range.
TEST(ConsistencyLimits, WhateverIsDeclared) {
  Attack(4000, {}, oracle::DrawWholeContract);
  Attack(2000, {60, 99, true}, oracle::DrawContract);
  Attack(2000, {60, 99, true}, oracle::DrawWholeContract);
  Attack(4000, {}, oracle::DrawNarrowContract);
  Attack(2000, {60, 99, true}, oracle::DrawNarrowContract);
}

}  // namespace
}  // namespace plumbline::fuzz

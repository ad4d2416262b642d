// SPDX-License-Identifier: Apache-2.0
//
// Problems and contracts that are drawn for the simulated kernels (tests/oracle/simulated_kernel.h),
// and the judgement of one kernel.

#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "kernel/dtype.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {

class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  int64_t Range(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(rng_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Range(1, n) == 1; }
  float Unit() { return static_cast<float>(Range(-0x7fffff, 0x7fffff)) * 0x1p-23f; }  // (-1, 1)
  float Power(int64_t low, int64_t high) {
    return std::ldexp(1.0f, static_cast<int>(Range(low, high)));
  }
  template <class T, size_t kSize>
  T Of(const std::array<T, kSize>& values) {
    return values[static_cast<size_t>(Range(0, kSize - 1))];
  }

 private:
  std::mt19937_64 rng_;
};

// Truncates x to the dtype and to its range.
uint32_t Pattern(kernel::DType dtype, float x);

struct Ranges {
  int64_t gradient = 0;     // upstream gradients from 2^-this to 2^this
  int64_t temperature = 3;  // likewise
  bool wild = false;        // subnormal, huge and flushed operands
};

SmallProblem DrawProblem(Dice* dice, const Ranges& ranges);

// A contract with errors as small as those of the built-in targets.
Contract DrawContract(Dice* dice, const Ranges& ranges);

// A contract from the whole range that a description may declare: each error is 0, at its limit or
// between, and every form is drawn. Sums over the vocabulary have the depth that the simulated kernel
// needs.
Contract DrawWholeContract(Dice* dice, const Ranges& ranges);

// The same, with steps in 16 bits: rounded logits, log-probabilities, probabilities, partial sums and
// outputs, and a filter. Each is drawn alone or with others.
Contract DrawNarrowContract(Dice* dice, const Ranges& ranges);

struct Tightest {
  std::array<double, kOutputs.size()> of{};
  int64_t judged = 0, vacuous = 0;
};

// Judges the results of one kernel. `what` names the kernel in messages.
void JudgeOne(const kernel::Problem& problem, const Contract& contract, const Expectation& expected,
              uint64_t seed, const std::string& what, Tightest* tightest);

}  // namespace plumbline::oracle

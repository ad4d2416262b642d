// SPDX-License-Identifier: Apache-2.0
//
// A case that is small enough to compare every element of what a target gave with what exact arithmetic
// makes of a set of shortcuts.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/baseline/comparison.h"
#include "fuzz/baseline/exact_shortcuts.h"
#include "fuzz/baseline/family.h"
#include "fuzz/baseline/simulate.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

class SmallCase {
 public:
  // What the oracle requires of one element that is a number, and what came.
  struct Element {
    size_t at = 0;  // its place among the simulated values
    double exact = 0, bound = 0, got = 0;
    bool Fails() const { return !(got - exact <= bound && exact - got <= bound); }
  };

  // Null for a case of more than 2^20 multiply-adds, without a normal row, with an invalid one, or in
  // which the target gave no number where one is required. Problem and results must be in host memory
  // and outlive it, as must the contract. loss is left out.
  static std::unique_ptr<SmallCase> Of(const kernel::Problem& problem, const kernel::Results& results,
                                       const oracle::Contract& contract);

  // Beyond their bounds.
  int64_t failing() const;
  // What the contract declares.
  const Shortcuts& declared() const { return family_.declared; }
  const oracle::Inputs& inputs() const { return inputs_; }

  // The sum of the squares of what these shortcuts leave of elements beyond their bounds; nothing if
  // some element is farther from its simulated value than its bound, or fewer than nine in ten of those
  // beyond their bounds err by less than a tenth of what they did.
  std::optional<double> LeftUnder(const Shortcuts& shortcuts);
  // Whether nine in ten of this output's elements beyond their bounds are within these of their
  // simulated values, or err by less than a tenth of what they did. There is at least one.
  bool Explains(const Shortcuts& shortcuts, oracle::Output output);
  // The numbers of an output's elements beyond their bounds.
  std::vector<size_t> Failing(oracle::Output output) const;
  // Takes off the list whatever these shortcuts bring to within twice its bound, or to half its error.
  void TakeExplained(const Shortcuts& shortcuts, oracle::Output output, std::vector<size_t>* failing);
  // Counts elements of an output in which these shortcuts' own error is more than twice the bound:
  // those that err as it does, and those that are within the bound, where they are not taken. What
  // errs otherwise says nothing of them.
  struct Shown {
    int64_t present = 0, absent = 0;
  };
  Shown ShownIn(const Shortcuts& shortcuts, oracle::Output output);

 private:
  SmallCase(const kernel::Problem& problem, const kernel::Results& results,
            const oracle::Contract& contract, oracle::Inputs inputs);
  class Sink;

  const oracle::Inputs inputs_;
  const Family family_;
  kernel::Results results_;
  Places places_;
  SimulationOptions options_;
  std::array<std::vector<Element>, oracle::kOutputs.size()> elements_;
  std::optional<Comparison> comparison_;
  std::optional<Simulation<float>> fp32_;
  std::optional<ExactShortcuts> exact_;
};

}  // namespace plumbline::fuzz

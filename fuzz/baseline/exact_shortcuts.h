// SPDX-License-Identifier: Apache-2.0
//
// The exact values of a problem's outputs under a set of shortcuts: fp64 arithmetic that rounds what
// they round and nothing else.

#pragma once

#include <vector>

#include "fuzz/baseline/comparison.h"
#include "fuzz/baseline/family.h"
#include "fuzz/baseline/simulate.h"

namespace plumbline::fuzz {

// What it refers to must outlive it.
class ExactShortcuts {
 public:
  // `fp32` simulates members of the family, whose errors say what lies near a tie.
  ExactShortcuts(const kernel::Problem& problem, const oracle::Inputs& inputs, const Family& family,
                 const Places& places, const SimulationOptions& options, const Comparison& comparison,
                 Simulation<float>* fp32)
      : family_(family),
        comparison_(comparison),
        fp32_(*fp32),
        exact_(problem, inputs, places, options) {}

  // Returns the values as they round; empty if it was interrupted.
  std::vector<ExactValues> AsRounded(const Shortcuts& shortcuts);
  // Returns three sets of values: as they round, and with every value moved up, and down, by four
  // honest errors of a logit before it is rounded: what lies near a tie may go either way. Empty if it
  // was interrupted.
  std::vector<ExactValues> Under(const Shortcuts& shortcuts);

 private:
  std::vector<ExactValues> Of(const std::vector<Baseline>& sides);
  double LogitError();
  ExactValues ValuesOf(const Simulated<double>& side) const;

  const Family& family_;
  const Comparison& comparison_;
  Simulation<float>& fp32_;
  Simulation<double> exact_;
  double logit_error_ = 0;
};

}  // namespace plumbline::fuzz

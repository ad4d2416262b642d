// SPDX-License-Identifier: Apache-2.0
//
// The errors of a problem's results in units of baselines', output by output, at the places that are
// compared.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/baseline/simulate.h"
#include "fuzz/baseline/statistics.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

// What one output is compared with at its places: [units][elements]; NaN where there is no number.
// Empty: the output is not compared.
struct ExactValues {
  std::array<std::vector<double>, oracle::kOutputs.size()> of;
  std::vector<double>& operator[](oracle::Output o) { return of[static_cast<size_t>(o)]; }
  const std::vector<double>& operator[](oracle::Output o) const { return of[static_cast<size_t>(o)]; }
};

// One line of the second tier.
struct OutputErrors {
  oracle::Output output = oracle::Output::kLogprob;
  std::string_view part;  // of grad_weight: "labels" or "other columns"; empty for the others
  HonestUnits units;
  int64_t dropped = 0;   // units in which the target's, the exact or a baseline's value is no number
  std::string baseline;  // the name of the one that errs most
};

bool SuspectIn(const std::vector<OutputErrors>& errors, oracle::Output output);

// What it refers to must outlive it.
class Comparison {
 public:
  Comparison(const kernel::Problem& problem, const kernel::Results& results,
             const oracle::Contract& contract, const oracle::Inputs& inputs, const Places& places)
      : problem_(problem), results_(results), contract_(contract), inputs_(inputs), places_(places) {}

  // True for an output that is present and has places.
  bool Compares(oracle::Output output) const;
  int64_t UnitsOf(oracle::Output output) const;
  int64_t ElementsOf(oracle::Output output) const;
  // `simulated`: by each of the baselines, in their order; at least one. A unit of the target is
  // compared with the nearest of several sets of exact values, the baselines' with the first.
  std::vector<OutputErrors> Compare(const std::vector<ExactValues>& exact,
                                    const std::vector<Baseline>& baselines,
                                    const std::vector<Simulated<float>>& simulated) const;

 private:
  struct Unit {
    std::vector<std::vector<double>> exact;  // [sets]
    std::vector<double> got;
    std::vector<std::vector<double>> simulated;  // [baselines]
    double floor = 0;
  };
  double LabelFloor(oracle::Output output, size_t row, const Simulated<float>& baseline) const;
  double GradientFloor(oracle::Output output, size_t at, const Simulated<float>& baseline) const;
  double NormOf(const kernel::ConstTensor& matrix, int64_t row) const;
  double Flushed(int64_t terms) const;
  // In u: of a logarithm, of an exponential, of a probability relative to it.
  struct Rough {
    double log = 0, exponential = 0, probability = 0;
  };
  Rough RoughOf(const RowForward<float>& forward) const;
  double ForwardFloor(oracle::Output output, const RowForward<float>& forward) const;
  // `rough`: the largest RoughOf(…).probability.
  Unit UnitOf(oracle::Output output, size_t at, const std::vector<ExactValues>& exact,
              const std::vector<Simulated<float>>& simulated, double rough) const;
  void CompareOutput(oracle::Output output, std::string_view part, const std::vector<size_t>& units,
                     const std::vector<ExactValues>& exact, const std::vector<Baseline>& baselines,
                     const std::vector<Simulated<float>>& simulated, double rough,
                     std::vector<OutputErrors>* out) const;

  const kernel::Problem& problem_;
  const kernel::Results& results_;
  const oracle::Contract& contract_;
  const oracle::Inputs& inputs_;
  const Places& places_;
};

// The element of what was simulated that belongs to a unit of an output.
template <class Real>
double ValueOf(const Simulated<Real>& from, oracle::Output output, size_t unit, size_t element,
               size_t elements);

}  // namespace plumbline::fuzz

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

// A unit by itself: of one element with its values, else NaN.
struct WorstUnit {
  int64_t row = 0;               // of the problem, or of grad_weight
  double error = 0, honest = 0;  // the target's, the largest baseline's with its floor
  double got = 0, exact = 0;
};
inline constexpr size_t kWorstUnits = 16;

// One line of the second tier.
struct OutputErrors {
  oracle::Output output = oracle::Output::kLogprob;
  std::string_view part;  // of grad_weight: "labels" or "other columns"; empty for the others
  HonestUnits units;
  int64_t dropped = 0;   // units in which the target's, the exact or a baseline's value is no number
  std::string baseline;  // the name of the one that errs most
  std::vector<WorstUnit> worst;  // at most kWorstUnits, the largest error first
  // [units.units]: which of the output's units they are, and what the largest baseline errs there with
  // its floor.
  std::vector<size_t> unit;
  std::vector<double> scale;
};

bool SuspectIn(const std::vector<OutputErrors>& errors, oracle::Output output);

// What it refers to must outlive it.
class Comparison {
 public:
  // `given`: how backward's forward pass was given, where it was.
  Comparison(const kernel::Problem& problem, const kernel::Results& results,
             const oracle::Contract& contract, const oracle::Inputs& inputs, const Places& places,
             const GivenErrors& given = {});

  // True for an output that is present and has places.
  bool Compares(oracle::Output output) const;
  int64_t UnitsOf(oracle::Output output) const;
  int64_t ElementsOf(oracle::Output output) const;
  // `simulated`: by each of the baselines, in their order; at least one. A unit of the target is
  // compared with the nearest of several sets of exact values, the baselines' with the first.
  std::vector<OutputErrors> Compare(const std::vector<ExactValues>& exact,
                                    const std::vector<Baseline>& baselines,
                                    const std::vector<Simulated<float>>& simulated) const;

  // How much of a target's errors a shortcut's own errors are, in the units where these are at least
  // twice an honest kernel's: the median of 1 - |r|^2 / |e|^2, with e the error beside `without`, r
  // beside the nearest of `with`, both beyond rounding the output. What is not correlated with e makes
  // it negative.
  struct Share {
    double median = 0;
    int64_t units = 0;
  };
  Share ExplainedShare(const OutputErrors& before, const ExactValues& without,
                       const std::vector<ExactValues>& with) const;

 private:
  kernel::DType DtypeOf(oracle::Output output) const;
  static constexpr double kUnitRoundoff = 0x1p-24;
  // A rough function's error in full makes so many units, a quarter of what is suspect.
  static constexpr double kShare = HonestUnits::kSuspect / 4;
  struct Unit {
    std::vector<std::vector<double>> exact;  // [sets]
    std::vector<double> got;
    std::vector<std::vector<double>> simulated;  // [baselines]
    double floor = 0;
  };
  double LabelFloor(oracle::Output output, size_t row, const Simulated<float>& baseline) const;
  // The largest root mean square of the label's row of weight, the top logit's and four others.
  double LargestNorm(size_t row, const Simulated<float>& baseline) const;
  double Expected(oracle::Output output, size_t at, const Simulated<float>& baseline) const;
  double GradientFloor(oracle::Output output, size_t at, const Simulated<float>& baseline) const;
  double GivenFloor(size_t row, size_t at, const Simulated<float>& baseline) const;
  double NormOf(const kernel::ConstTensor& matrix, int64_t row) const;
  double AccumulatorRoundoff() const;
  double SpreadOfLogits(size_t row, const Simulated<float>& baseline) const;
  double UpstreamOf(size_t row) const;
  double LeastProbability() const;
  double Flushed(int64_t terms, double factor) const;
  double LostInPlanes(int64_t terms, double operand) const;
  // In u: of a logarithm, of an exponential, of a probability relative to it.
  struct Rough {
    double log = 0, exponential = 0, probability = 0;
  };
  Rough RoughOf(const RowForward<float>& forward) const;
  double SumOfEntropy(const RowForward<float>& forward) const;
  double ForwardFloor(oracle::Output output, const RowForward<float>& forward) const;
  // `rough`: the largest RoughOf(…).probability.
  Unit UnitOf(oracle::Output output, size_t at, const std::vector<ExactValues>& exact,
              const std::vector<Simulated<float>>& simulated, double rough) const;
  // The root mean square of what a baseline's values err beyond the output's rounding.
  double BaselineError(oracle::Output output, const std::vector<double>& exact,
                       const std::vector<double>& values) const;
  double Rounded(oracle::Output output, double value) const;
  void CompareOutput(oracle::Output output, std::string_view part, const std::vector<size_t>& units,
                     const std::vector<ExactValues>& exact, const std::vector<Baseline>& baselines,
                     const std::vector<Simulated<float>>& simulated, double rough,
                     std::vector<OutputErrors>* out) const;

  const kernel::Problem& problem_;
  const kernel::Results& results_;
  const oracle::Contract& contract_;
  const oracle::Inputs& inputs_;
  const Places& places_;
  const GivenErrors given_;
  std::vector<double> hidden_norm_;  // [rows]: the root mean square of a row, for grad_weight
};

// The element of what was simulated that belongs to a unit of an output.
template <class Real>
double ValueOf(const Simulated<Real>& from, oracle::Output output, size_t unit, size_t element,
               size_t elements);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The second tier of judgement: the errors of a problem's results in units of those that honest kernels
// of the same contract make on these inputs (BASELINES.md). A rigorous bound holds for every order of
// summation, so at production size it is 10^4 times what an honest kernel errs. An error of ten times
// that is improbable and proves nothing: it is suspect, never wrong.

#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/baseline/simulate.h"
#include "fuzz/baseline/statistics.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/element_row.h"

namespace plumbline::fuzz {

struct HonestErrorOptions : oracle::SweepOptions {
  uint64_t seed = 1;  // draws rows and columns
  bool deep = false;  // every row, however long that takes
};

// One line of the second tier.
struct OutputErrors {
  oracle::Output output = oracle::Output::kLogprob;
  std::string_view part;  // of grad_weight: "labels" or "other columns"; empty for the others
  HonestUnits units;
  std::string baseline;  // the name of the one that errs most
};

struct HonestErrors {
  std::vector<OutputErrors> outputs;
  int64_t rows = 0, baselines = 0;
  int64_t hidden_columns = 0, weight_rows = 0;  // of each gradient; 0: it was not compared
  std::vector<std::string> left_out;            // what was not compared, and why, a line each

  bool Suspect(oracle::Output output) const;
};

// Chooses what is compared, takes the exact values of these elements from the oracle's sweep over the
// same problem, and compares. What it refers to must outlive it.
class HonestErrorTier final : public oracle::ElementSink {
 public:
  // `results` are in host memory; grad_weight among them is of these rows alone.
  HonestErrorTier(const kernel::Problem& problem, const kernel::Results& results,
                  const oracle::Contract& contract, const HonestErrorOptions& options);
  void Take(const oracle::ElementRow& row) override;
  // Call once, after the sweep. Returns no outputs if it was interrupted.
  HonestErrors Compare();

 private:
  // The exact values of one output at the places that are compared; NaN where there is none.
  struct Exact {
    std::vector<double> value;  // [units][elements]
    int64_t elements = 1;
  };
  struct Unit {
    std::vector<double> exact, got;
    std::vector<std::vector<double>> simulated;  // [baselines]
    double floor = 0;
  };

  void ChooseRows(double cost_of_row);
  void ChooseColumns();
  bool Judges(oracle::Output output) const;
  Unit UnitOf(oracle::Output output, size_t at, const std::vector<Simulated>& simulated) const;
  double ForwardFloor(oracle::Output output, const RowForward& forward) const;
  double GradientFloor(oracle::Output output, size_t at, const std::vector<RowForward>& forward) const;
  double LabelFloor(oracle::Output output, size_t row, const RowForward& forward) const;
  void CompareOutput(oracle::Output output, std::string_view part, const std::vector<size_t>& units,
                     const std::vector<Simulated>& simulated, HonestErrors* out) const;

  const kernel::Problem& problem_;
  const kernel::Results& results_;
  const HonestErrorOptions options_;
  const oracle::Contract contract_;
  const oracle::Inputs inputs_;
  const Family family_;
  Places places_;
  std::vector<Exact> exact_;  // by output
  std::vector<std::string> left_out_;
  std::mutex mutex_;
};

}  // namespace plumbline::fuzz

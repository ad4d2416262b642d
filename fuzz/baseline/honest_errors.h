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

#include "fuzz/baseline/comparison.h"
#include "fuzz/baseline/explain.h"
#include "fuzz/baseline/family.h"
#include "fuzz/baseline/simulate.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/element_row.h"

namespace plumbline::fuzz {

struct HonestErrorOptions : oracle::SweepOptions {
  uint64_t seed = 1;  // draws rows and columns
  bool deep = false;  // however long that takes, as many rows as 2^26 logits hold
};

struct HonestErrors {
  std::vector<OutputErrors> outputs;
  int64_t rows = 0, baselines = 0;
  int64_t hidden_columns = 0, weight_rows = 0;  // of each gradient; 0: it was not compared
  std::vector<std::string> left_out;            // what was not compared, and why, a line each
  ShortcutExplanation explanation;              // of what is suspect

  bool Suspect(oracle::Output output) const;
  bool AnySuspect() const;
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
  void ChooseRows(double cost_of_row);
  void ChooseColumns();

  const kernel::Problem& problem_;
  const kernel::Results& results_;
  const HonestErrorOptions options_;
  const oracle::Contract contract_;
  const oracle::Inputs inputs_;
  const Family family_;
  Places places_;
  ExactValues exact_;
  std::vector<std::string> left_out_;
  std::mutex mutex_;
};

}  // namespace plumbline::fuzz

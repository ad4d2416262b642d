// SPDX-License-Identifier: Apache-2.0
//
// Another engine's logprobs of the same tokens (rollout_logprob, old_logprob), set against the exact
// logprob of the judged rows. Nothing bounds what another engine, or the weights of an earlier step,
// may return, so there is no verdict: the log-ratio's size, and the hypotheses that explain it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/check/judge.h"
#include "fuzz/check/report.h"
#include "fuzz/check/rollout_hypotheses.h"
#include "fuzz/check/sample.h"

namespace plumbline::fuzz {

// What the log-ratios of one tensor are. A log-ratio is the exact logprob less the one given.
struct RolloutComparison {
  std::string name;          // "rollout_logprob"
  int64_t rows = 0;          // compared
  int64_t left_out = 0;      // rows with a label that were not compared, for the logits they would take
  int64_t not_finite = 0;    // rows with a label whose exact logprob or whose value is no finite number
  double mean = 0, rms = 0;  // of the log-ratio, in nats
  double p99 = 0;            // of its magnitude, by nearest rank
  double largest = 0;        // the log-ratio of the largest magnitude
  int64_t largest_row = -1;  // its row in the dump
  double outside = 0;        // share of rows with exp(log-ratio) outside [0.9, 1.1]
  std::vector<RolloutHypothesis> hypotheses;  // of the most share first; empty: too few rows
};

// Refuses, naming the tensor, what is not one float a row. Empty if there is nothing to refuse.
std::string CheckRollouts(const Dump& dump);

// Compares every such tensor of the dump on the rows of the sample that have a label, or on as many as
// have their logits within 2^24 together. Returns nothing if the interrupt was raised.
std::vector<RolloutComparison> CompareRollouts(const DumpSample& sample,
                                               const JudgeDumpOptions& options);

// Adds the section "rollout" to text and JSON, if the dump has such a tensor.
void ReportRollouts(const DumpSample& sample, const JudgeDumpOptions& options, DumpReport* report);

}  // namespace plumbline::fuzz

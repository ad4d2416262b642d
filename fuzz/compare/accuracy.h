// SPDX-License-Identifier: Apache-2.0
//
// How far off a target is on values like a trained model's, in units of what honest kernels of one
// contract err on the same inputs (fuzz/baseline/BASELINES.md): a common scale for targets that declare
// different things.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

struct AccuracyOptions {
  std::string yardstick;  // the contract whose honest kernels are the unit; a name or words
  int64_t problems = 0;
  uint64_t seed = 0;
  std::chrono::milliseconds case_timeout{0};
  std::chrono::milliseconds first_call_timeout{0};   // WorkerSpec::first_call
  std::filesystem::path program = "/proc/self/exe";  // as in WorkerSpec
};

// How many cases were not judged for one reason.
struct SkippedCases {
  std::string reason;
  int64_t cases = 0;
};
// The same as a list, the most frequent first.
std::vector<SkippedCases> SkippedOf(const std::map<std::string, int64_t>& reasons);

// An output's errors over all problems that were judged. A unit is a row, or a column of grad_weight;
// its ratio is its error over what the worst honest kernel errs there.
struct OutputAccuracy {
  std::string output;
  int64_t problems = 0, units = 0;
  double typical = 0;  // the median over the problems of root mean square / honest one
  double p99 = 0;      // of 100 units 99 are below it
  double largest = 0;  // over the problems: the largest error / the largest honest one
};

struct Accuracy {
  int64_t problems = 0, judged = 0;
  int64_t changed = 0;  // judged, but within what the target can do: not as they were drawn
  std::vector<SkippedCases> skipped;
  // The median over the judged problems of what all the target's runs took, two of the whole batch and
  // one or two of parts of it; copies to and from a device and the harness' own checks are not in it.
  double seconds = 0;
  std::vector<OutputAccuracy> outputs;
  std::string incomplete;  // why there is less; empty: there is not
};

// The problems as they are drawn: the same for each target. Ordinary rows, confident rows and massive
// channels in turn, in bf16, in as few shapes as there are kinds, for targets that compile for each.
std::vector<Recipe> AccuracyProblems(int64_t count, uint64_t seed);

// Runs each problem on the target, within what it can do. Never fails: a problem whose worker dies or
// passes its deadline is skipped, and `incomplete` says why where none can be run.
Accuracy MeasureAccuracy(const std::string& target, const AccuracyOptions& options,
                         const std::atomic<bool>& interrupt);

void Fields(FieldVisitor& io, SkippedCases& skipped);
void Fields(FieldVisitor& io, OutputAccuracy& accuracy);
void Fields(FieldVisitor& io, Accuracy& accuracy);

}  // namespace plumbline::fuzz

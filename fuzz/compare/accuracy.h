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

// An output's errors over all problems that were judged. A unit is a row, or a column of the vocabulary
// of grad_weight, whose columns of labels and others are told apart: the larger figure of a problem
// counts. A unit without a number errs infinitely.
struct OutputAccuracy {
  std::string output;
  int64_t problems = 0, units = 0;
  int64_t dropped = 0;  // of the units, those without a number
  double typical = 0;   // the median over the problems of root mean square / honest root mean square
  double p99 = 0;       // of 100 units 99 err at most so many times what an honest kernel errs there
  double largest = 0;   // over the problems: the largest error / the largest honest one
};

struct Accuracy {
  int64_t problems = 0, judged = 0;
  int64_t changed = 0;  // judged, but within what the target can do: not as they were drawn
  std::vector<SkippedCases> skipped;
  // Problems that the target does not survive, refuses, answers with what is no number, or in which it
  // writes elsewhere: more than an error of its values.
  std::vector<SkippedCases> failed;
  // The median over the problems that were judged as they were drawn of the target's first run, copies
  // to and from a device among it; 0: there are none.
  double seconds = 0;
  std::vector<OutputAccuracy> outputs;
  std::string incomplete;  // why not all problems were run; empty: they were
};

// The problems as they are drawn: the same for each target. Ordinary rows, confident rows and massive
// channels in turn, in bf16, in four shapes, for targets that compile for each.
std::vector<Recipe> AccuracyProblems(int64_t count, uint64_t seed);

// Runs each problem on the target, within what it can do; one whose worker dies or passes its deadline
// runs again. `incomplete` says why not all of them were run: the target does not load, the harness is
// at fault, or it was interrupted.
Accuracy MeasureAccuracy(const std::string& target, const AccuracyOptions& options,
                         const std::atomic<bool>& interrupt);

void Fields(FieldVisitor& io, SkippedCases& skipped);
void Fields(FieldVisitor& io, OutputAccuracy& accuracy);
void Fields(FieldVisitor& io, Accuracy& accuracy);

}  // namespace plumbline::fuzz

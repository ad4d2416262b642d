// SPDX-License-Identifier: Apache-2.0
//
// The shortcuts that a target takes without declaring them: found by judging stored results of many
// small cases again (INFERENCE.md).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// The contract of a target that declares none.
inline constexpr std::string_view kUndeclared = "tensor-core-fp32";

struct InferenceCase {
  std::string recipe;  // the line that it was expanded from
  OwnedProblem problem;
  // Dense, by Output; empty where the output is absent. loss is a part of a reduced case.
  std::vector<HostTensor> results;
};

struct InferredShortcut {
  std::string what;      // "logits rounded to bf16"
  std::string declares;  // "logits=bf16": the words that declare it
  int64_t cases = 0;     // that fail without it, and pass with all
  std::string output;    // of the largest error that it explains
  double error = 0;      // that error
  std::string recipe;    // of its case
};

struct Inference {
  std::vector<InferredShortcut> shortcuts;
  std::string contract;     // "tensor-core-fp32,logits=bf16": the base and all of them
  int64_t cases = 0;        // that were judged
  int64_t left = 0;         // that were not run, because time was over
  int64_t failing = 0;      // under the base
  int64_t unexplained = 0;  // under `contract`: bugs, or what cannot be told from one
  std::string incomplete;   // why nothing can be said; empty: it can
};

// Judges the cases under the named contract, and finds the smallest set of shortcuts that explains most
// of what fails.
Inference InferShortcuts(const std::vector<InferenceCase>& cases, std::string_view base);

void Fields(FieldVisitor& io, InferredShortcut& shortcut);
void Fields(FieldVisitor& io, Inference& inference);

}  // namespace plumbline::fuzz

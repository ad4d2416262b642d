// SPDX-License-Identifier: Apache-2.0
//
// Shortcuts that explain a target whose errors no honest kernel makes: roundings that its contract does
// not say. Each is simulated on the target's own rows, in exact arithmetic otherwise, and in each
// baseline's. It explains an output if what is left of the error, against the simulated values, is
// clean by the second tier with baselines that take the same shortcut. The share of the error's energy
// that it explains is no test: a hundredth of what rounded logits err hides a bug.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/baseline/comparison.h"
#include "fuzz/baseline/family.h"
#include "fuzz/baseline/simulate.h"

namespace plumbline::fuzz {

// A set of shortcuts, with what is left under it.
struct ShortcutExplanation {
  std::vector<std::string> shortcuts;  // in words; empty: nothing explains anything
  // Where another shortcut leaves as little on these rows as the one of the same place: in words, else
  // empty.
  std::vector<std::string> or_else;
  std::vector<oracle::Output> explains;     // suspect before, clean under the set
  std::vector<oracle::Output> unexplained;  // suspect under the set, or not tried
  std::vector<OutputErrors> left;           // the second tier of what is left
  int64_t rows = 0;                         // on which it was tried; 0: it was not
  bool all_rows = true;                     // ... and these are all that were compared

  // "logits rounded to bf16, or ...; and ..."; empty where nothing explains anything.
  std::string Words() const;
};

// Tries every shortcut, then sets of at most three, the last member of which clears one more output.
// Fewer rows are simulated where all would take too long; grad_weight, which depends on every row, is
// not tried then. `suspect`: the outputs to be explained. Returns no rows if it was interrupted.
ShortcutExplanation ExplainByShortcuts(const kernel::Problem& problem, const kernel::Results& results,
                                       const oracle::Contract& contract, const oracle::Inputs& inputs,
                                       const Family& family, const Places& places,
                                       const SimulationOptions& options,
                                       const std::vector<oracle::Output>& suspect);

}  // namespace plumbline::fuzz

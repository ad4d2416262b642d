// SPDX-License-Identifier: Apache-2.0
//
// Explains which parts of a minimised problem may vary while it fails. Each axis, tensor and option is
// changed by itself, about twenty times, and one line says what happened, such as
//
//   V: fails unless V mod 64 is 0 (24 tried, 1 to 320)
//   weight: any finite values (20 of 20 at random)
//   offset of all logits: fails from -65536 to -87
//
// A line states only what was tried. Changes come from a fixed seed: the same problem and predicate
// give the same lines, if time allows.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz {

struct Explanation {
  std::vector<std::string> lines;  // for people
  // The same as words without counts, and without numbers except tiles, so that findings of one cause
  // share them in a bucket: "V!%64", "offset<", "weight:any".
  std::vector<std::string> rules;
};

// `problem` must fail. An axis for which the time was too short is left out, and a last line says so.
Explanation Explain(const OwnedProblem& problem, const StillFails& still_fails,
                    std::chrono::milliseconds time);

// Finds a rule for an extent from its tries: (extent, failed), ascending, at least one failed. It is
// the simplest that holds for all of them: any; a threshold; residues of a power of two; else a list.
struct Rule {
  std::string line, word;
};
Rule ExtentRule(const std::string& name, const std::vector<std::pair<int64_t, bool>>& tried);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Explains which parts of a minimised problem may vary while it fails. Each axis, tensor and option is
// changed by itself, about twenty times, and one line says what happened, such as
//
//   V: fails unless V mod 64 is 0 (31 tried, 1 to 577)
//   weight: any finite values (20 of 20 at random)
//   offset of all logits: fails from -65536 to -87
//
// A rule of an extent was tried for refutation before it is stated (extent_rule.h). Changes come from a
// fixed seed: the same problem and predicate give the same lines, if the limit allows.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz {

struct Explanation {
  std::vector<std::string> lines;  // for people
  // The same as words without counts, and without numbers except tiles, so that findings of one cause
  // share them in a bucket: "V!%64", "offset<", "weight:any".
  std::vector<std::string> rules;
  // The words for N, V and H by failing in any way, where ExplainOptions::otherwise is set.
  std::vector<std::string> any_rules;
  // It fails in another dtype of hidden and weight as well.
  bool other_dtype = false;
};

struct ExplainOptions {
  std::chrono::milliseconds time{2'000};
  std::optional<int64_t> tries;  // limits the candidates in place of the time: no clock is read
  // Returns whether the last candidate, which did not show the finding, failed in another way. An
  // extent's line then says both, if they differ.
  std::function<bool()> otherwise;
};

// `problem` must fail. An axis for which the limit was too small is left out, and a last line says so.
Explanation Explain(const OwnedProblem& problem, const StillFails& still_fails,
                    const ExplainOptions& options);
inline Explanation Explain(const OwnedProblem& problem, const StillFails& still_fails,
                           std::chrono::milliseconds time) {
  return Explain(problem, still_fails, ExplainOptions{.time = time, .tries = {}, .otherwise = {}});
}

}  // namespace plumbline::fuzz

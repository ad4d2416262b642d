// SPDX-License-Identifier: Apache-2.0
//
// What another engine may have done to a logprob: another temperature, top-k or top-p renormalised,
// logits or values in 16 bits, a shift by one row, the opposite sign. Each is computed on the exact
// logits of the same rows. Parameters are fitted on one half of the rows and the hypothesis is tested
// on the other.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/check/exact_logits.h"

namespace plumbline::fuzz {

// The logprob of a column of a row of logits in fp64, by its definition, where each is changed(logit) /
// T. `changed` must keep the order of numbers.
template <class Changed = std::identity>
double LogprobOf(std::span<const double> logits, int64_t column, double temperature,
                 const Changed& changed = {}) {
  const double most = changed(*std::ranges::max_element(logits));
  double sum = 0;
  for (const double logit : logits) sum += std::exp((changed(logit) - most) / temperature);
  return (changed(logits[static_cast<size_t>(column)]) - most) / temperature - std::log(sum);
}

// Rows with a label, a temperature and a given logprob that are finite and valid. Vectors have an entry
// for each.
struct RolloutRows {
  const ExactLogits* logits = nullptr;
  std::vector<int64_t> at;  // their places in `logits`
  std::vector<int64_t> label;
  std::vector<double> temperature;
  std::vector<double> exact, given;
  // What the rows before and after in the dump have; nullopt where there is none or it has none.
  std::vector<std::optional<int64_t>> label_before, label_after;
  std::vector<std::optional<double>> given_before, given_after;
};

struct RolloutHypothesis {
  std::string what;       // "the temperature was 0.7 (fitted)"
  int64_t tested = 0;     // rows, none of which a parameter was fitted on
  double share = 0;       // of the log-ratio's energy, the sum of its squares, that is explained there
  double left = 0;        // root mean square of what is not, in nats
  bool explains = false;  // on enough rows a large enough share, and no other explains what it leaves

  // `share` is the smaller of two, over all tested rows and over all but the one of the largest
  // log-ratio, so that no single row decides. A direction drawn at random in 7 dimensions or more has
  // 0.9 of its energy along a given one with probability below 2e-4, and about a dozen are tried. Where
  // the best hypothesis leaves less than 1 - 0.9 of the energy that another leaves, the other is a
  // poorer form of it, as T = 1 is where T was 0.8 and the dump says 0.5.
  static constexpr double kLeastShare = 0.9;
  static constexpr int64_t kLeastTested = 8;
};

// Returns each hypothesis that applies, the largest share first; nothing where fewer than twice
// kLeastTested rows are given or no value differs from the exact one.
std::vector<RolloutHypothesis> ExplainRollout(const RolloutRows& rows, int threads);

}  // namespace plumbline::fuzz

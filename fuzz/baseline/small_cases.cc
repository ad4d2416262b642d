// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/small_cases.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "fuzz/baseline/candidates.h"
#include "fuzz/baseline/small_case.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr double kAlike = 4;  // in squares: half as much is told apart

// True if a form that the contract does not declare allows every element: it rounds as coarsely where
// logits share an offset, and the readings of a finding name it.
bool FormExplains(const kernel::Problem& problem, const kernel::Results& results,
                  const oracle::Contract& contract) {
  for (bool oracle::Contract::* form :
       {&oracle::Contract::plain_logprob, &oracle::Contract::plain_entropy,
        &oracle::Contract::entropy_of_probabilities}) {
    oracle::Contract with = contract;
    with.*form = true;
    const auto outputs = oracle::JudgeProblem(problem, results, with).outputs;
    if (std::ranges::all_of(outputs, [](const oracle::OutputVerdict& v) { return v.fail == 0; })) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string ShortcutOfSmallCase(const kernel::Problem& problem, const kernel::Results& results,
                                const oracle::Contract& contract, const std::vector<Output>& failing) {
  const std::unique_ptr<SmallCase> small = SmallCase::Of(problem, results, contract);
  if (small == nullptr || small->failing() < kLeastElements) return {};
  kernel::Results asked = results;
  asked.loss.reset();
  if (FormExplains(problem, asked, contract)) return {};
  struct Named {
    double left = std::numeric_limits<double>::infinity();
    std::string what;
  };
  Named best, second;
  for (const Candidate& candidate : CandidatesFor(small->inputs())) {
    if (candidate.only && std::ranges::find(failing, *candidate.only) == failing.end()) continue;
    Shortcuts shortcuts = small->declared();
    candidate.apply(&shortcuts);
    const std::optional<double> left = small->LeftUnder(shortcuts);
    if (!left) continue;
    Named named{*left, candidate.what};
    if (named.left < best.left) std::swap(named, best);
    if (named.left < second.left) std::swap(named, second);
  }
  const bool alike = !second.what.empty() && second.left <= kAlike * best.left;
  return best.what + (alike ? ", or " + second.what : "");
}

bool LeavesUnexplained(const kernel::Problem& problem, const kernel::Results& results,
                       const oracle::Contract& contract, Output output) {
  kernel::Results only;
  oracle::Find(&only, output) = oracle::Find(results, output);
  const std::unique_ptr<SmallCase> small = SmallCase::Of(problem, only, contract);
  if (small == nullptr || FormExplains(problem, only, contract)) return false;
  std::vector<size_t> failing = small->Failing(output);
  for (const Candidate& candidate : CandidatesFor(small->inputs())) {
    if (failing.empty()) return false;
    Shortcuts shortcuts = small->declared();
    candidate.apply(&shortcuts);
    small->TakeExplained(shortcuts, output, &failing);
  }
  return !failing.empty();
}

}  // namespace plumbline::fuzz

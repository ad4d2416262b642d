// SPDX-License-Identifier: Apache-2.0
//
// Two tiers of judgement. A target that leaves keys of its contract out is judged by what is assumed of
// them first (fuzz/target/assumptions.h). What fails is judged again by the contract as it is declared:
// what fails by that too is wrong, the rest is suspect.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fuzz/examine/result.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {

// A judgement whose outputs are judged by the declared contract if an element fails by it, else by what
// is assumed.
struct TieredJudgement {
  oracle::Judgement judgement;
  std::vector<int64_t> suspect;  // for each output: elements that fail by what is assumed alone

  // True if an output fails by what is assumed and not by the declared contract.
  bool IsSuspect(size_t output) const {
    return suspect[output] > 0 && suspect[output] == judgement.outputs[output].fail;
  }
  bool Failed() const;
};

// Judges sets of results by one contract. Called twice at most.
using JudgeBy = std::function<std::vector<oracle::Judgement>(const oracle::Contract&)>;
// The second judgement is asked for only where the first one fails and something is assumed.
std::vector<TieredJudgement> JudgeInTiers(const Description& description, const JudgeBy& judge);

// Fills in the readings of the suspect findings. passes(contract, output) says whether the output
// passes by that contract.
using PassesBy = std::function<bool(const oracle::Contract& contract, oracle::Output output)>;
void AddReadings(const Description& description, const PassesBy& passes,
                 std::vector<Finding>* findings);

// Judges the results by each named contract.
std::vector<ContractFit> FitsOf(const kernel::Problem& problem, const kernel::Results& results);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The second tier of grad_weight where too few rows are judged for it: some of its rows, whose terms
// come from every row of hidden. The softmax of so many rows is too dear, so that backward starts from
// the lse and the entropy that the results themselves hold. An lse that is wrong, and a gradient that
// follows from it, look right here; the first tier judges lse on its own rows.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/baseline/honest_errors.h"
#include "kernel/problem.h"
#include "oracle/budget/inputs.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// `results` are of the whole problem, in host memory. Reads of them grad_weight; lse, else logprob; and
// entropy if it has an upstream gradient. `lse_error` is what an honest kernel errs in lse on rows of
// this problem, 0 where that is not known. Returns no outputs where it was interrupted or is not
// possible, which left_out says.
HonestErrors CompareWeightColumns(const kernel::Problem& problem, const kernel::Results& results,
                                  const oracle::Contract& contract, const HonestErrorOptions& options,
                                  double lse_error);

// The parts of it. ReadGiven reads the forward pass of these rows, with k where it has an entropy;
// returns why that is not possible, or nothing.
std::string ReadGiven(const kernel::Problem& problem, const oracle::Inputs& inputs,
                      const kernel::Results& results, const std::vector<int64_t>& rows,
                      std::vector<GivenForward>* given);
// Compares grad_weight alone, at places.weight_rows. `simulation` has the given forward pass. Returns
// nothing where it was interrupted.
std::vector<OutputErrors> CompareFromGiven(const kernel::Problem& problem,
                                           const kernel::Results& results,
                                           const oracle::Contract& contract,
                                           const oracle::Inputs& inputs, const Family& family,
                                           const Places& places, const SimulationOptions& simulation);

// What is assumed of it, with an honest kernel's error in lse.
GivenErrors GivenErrorsOf(const kernel::Results& results, double lse_error);

}  // namespace plumbline::fuzz

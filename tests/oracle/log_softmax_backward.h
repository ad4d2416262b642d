// SPDX-License-Identifier: Apache-2.0
//
// The backward pass of log_softmax in the arithmetic of a simulated kernel.

#pragma once

#include <cstddef>
#include <vector>

#include "tests/oracle/machine.h"

namespace plumbline::oracle {

// G - p sum G for every column, of the log-probabilities `logs` that forward kept, where G are their
// gradients: of p ln p by its two factors, the first through p = exp(ln p), and of the label's. The sum
// goes in the tiles and splits of the contract.
std::vector<Real> BackwardOfLogSoftmax(const Contract& contract, kernel::DType hidden,
                                       const std::vector<Real>& logs, size_t label, Real g, Real k,
                                       Machine* machine);

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0
//
// Hypotheses about a wrong dump that need more than judging it again: values were stored in 16 bits,
// columns that do not exist entered the sum, logits were rounded to 16 bits. With K extra columns of
// logit 0 the definitions give e^lse' = e^lse + K, whatever the temperature; and logprob' - logprob =
// -(lse' - lse).

#pragma once

#include <string>
#include <vector>

#include "fuzz/check/excerpt.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// Adds a sentence for each hypothesis that fits the excerpt, all of whose rows are wrong.
void DiagnoseLogits(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads,
                    std::vector<std::string>* sentences);

}  // namespace plumbline::fuzz

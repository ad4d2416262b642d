// SPDX-License-Identifier: Apache-2.0
//
// Hypotheses about a wrong dump that need more than judging it again: that its values were stored in 16
// bits, that columns which are not there entered the sum, that logits were rounded to 16 bits.
// From the definitions, with K columns of logit 0 beside the true ones:
//   e^lse' = e^lse + K, whatever the temperature; and logprob' - logprob = -(lse' - lse).

#ifndef PLUMBLINE_FUZZ_CHECK_LOGIT_HYPOTHESES_H_
#define PLUMBLINE_FUZZ_CHECK_LOGIT_HYPOTHESES_H_

#include <string>
#include <vector>

#include "fuzz/check/excerpt.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// Adds a sentence for each that fits the excerpt, all of whose rows are wrong.
void DiagnoseLogits(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads,
                    std::vector<std::string>* sentences);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CHECK_LOGIT_HYPOTHESES_H_

// SPDX-License-Identifier: Apache-2.0
//
// Hypotheses about a wrong dump that need more than judging it again: values were stored in 16 bits,
// columns that do not exist entered the sum, logits were rounded to 16 bits. With K extra columns of
// logit 0 the definitions give e^lse' = e^lse + K, whatever the temperature; and logprob' - logprob =
// -(lse' - lse).

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/check/diagnosis.h"
#include "fuzz/check/excerpt.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// Adds each hypothesis that fits the excerpt, all of whose rows are wrong.
void DiagnoseLogits(const DumpExcerpt& excerpt, const oracle::Contract& contract, int threads,
                    std::vector<Diagnosis>* diagnoses);

// Returns the number of leading columns that account for the error of lse, or of logprob, in every row,
// where the last ones are left out of the sum: a padded vocabulary that the kernel masks. The rows of
// the weight that are zero at its end decide among several. nullopt if no number does.
std::optional<int64_t> UnmaskedColumns(const DumpExcerpt& excerpt, const oracle::Contract& contract,
                                       int threads);

}  // namespace plumbline::fuzz

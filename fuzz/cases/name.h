// SPDX-License-Identifier: Apache-2.0
//
// The name of a case file: TARGET-SIGNATURE-BUCKET-PROBLEM.safetensors, characters [a-z0-9_.-] only.
//
//   mutant-tail-unmasked-bound-logprob-5c1e09b2-0f3d77aa.safetensors
//
// A listing thus sorts by target, then by what went wrong, then by cause. The last eight digits depend
// on the problem alone, so the same minimised problem has the same name whenever and however it was
// found.

#pragma once

#include <cstdint>
#include <string>

#include "fuzz/cases/file.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// A 64-bit hash of the tensors and every option. A name shows 32 of its bits.
uint64_t ProblemHash(const OwnedProblem& problem);

// Uses the bucket that the case was stored with, or BucketOf its problem if it has none yet.
std::string CaseFileName(const Case& c);

}  // namespace plumbline::fuzz

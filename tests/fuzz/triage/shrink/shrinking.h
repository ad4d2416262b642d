// SPDX-License-Identifier: Apache-2.0
//
// Support for the tests of the shrinker. Predicates whose simplest failing problem is known by hand
// take the place of targets, so every expectation is written down, not computed by the shrinker's own
// order.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"
#include "kernel/dtype.h"

namespace plumbline::fuzz {

// The values are multiples of 1/64 in (-2, 2), exact in every dtype. Every option is away from its
// default.
OwnedProblem Busy(int64_t n, int64_t v, int64_t h, kernel::DType dtype = kernel::DType::kBf16);

// Returns all bytes that a predicate can see, to tell candidates apart without the shrinker's hash.
std::string Everything(const OwnedProblem& problem);

// The default limit suits people who wait; no test may reach it unless it is about the limit.
ShrinkOptions Unhurried();

// Shrinks, and checks what must hold in every run: candidates are consistent and none is judged twice,
// what is accepted fails, and the counts and the result are those of the calls that were seen.
ShrinkResult Checked(const OwnedProblem& start, const ShrinkHint& hint, const StillFails& still_fails,
                     ShrinkOptions options = Unhurried());

std::vector<float> Floats(const HostTensor& tensor);
float Largest(const HostTensor& tensor);  // minus infinity if it has no elements

}  // namespace plumbline::fuzz

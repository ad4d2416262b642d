// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes on many values at once: a whole tensor becomes constant, or is rounded to few bits;
// runs of rows and columns are made plain. They remove what a defect does not need;
// fuzz/triage/shrink/elements.h has the passes on single values.
//
// Neutralising differs from deleting: the shape stays, and with it the ragged tail that a bug may need.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_

#include <cstdint>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// Float tensors have numbers: hidden, weight, temperature, grad_logprob, grad_entropy. Null if absent.
inline constexpr int kFloatTensors = 5;
HostTensor* FloatTensor(OwnedProblem& problem, int number);
const HostTensor* FloatTensor(const OwnedProblem& problem, int number);

// Returns value rounded to `bits` significant bits (1 to 24), to nearest, or toward zero.
float RoundToBits(float value, int bits, bool toward_zero);

// Tries constants, signs, few significant bits, integers, a common power of two.
bool SimplifyTensors(ShrinkSession& session);

// Makes rows of weight and hidden zero or a copy of a plain row, and hidden columns zero, in runs of
// half the extent down to `smallest`.
bool Neutralise(ShrinkSession& session, int64_t smallest);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_

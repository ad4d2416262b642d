// SPDX-License-Identifier: Apache-2.0
//
// Shrinker passes on many values at once: a whole tensor becomes constant, or is rounded to few bits;
// runs of rows and columns are made plain. What a bug does not need is gone after these;
// single values are fuzz/triage/shrink/elements.h.
//
// Neutralising differs from deleting: the shape stays, and with it the ragged tail that a bug may need.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_

#include <cstdint>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// The float tensors by number: hidden, weight, temperature, grad_logprob, grad_entropy. Null if absent.
inline constexpr int kFloatTensors = 5;
HostTensor* FloatTensor(OwnedProblem& problem, int number);
const HostTensor* FloatTensor(const OwnedProblem& problem, int number);

// value rounded to `bits` significant bits (1 to 24), to nearest, or toward zero.
float RoundToBits(float value, int bits, bool toward_zero);

// Constants, signs, few significant bits, integers, a common power of two.
bool SimplifyTensors(ShrinkSession& session);

// Rows of weight and hidden become zero or a copy of a plain row; hidden columns become zero. Runs of
// half the extent down to `smallest`.
bool Neutralise(ShrinkSession& session, int64_t smallest);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_TENSORS_H_

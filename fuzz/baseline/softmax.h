// SPDX-License-Identifier: Apache-2.0
//
// The softmax of one row and its derivative, in the fp32 arithmetic of a baseline. Formulas as in
// kernel/OPERATION.md.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fuzz/baseline/family.h"

namespace plumbline::fuzz {

struct RowScalars {
  int64_t label = 0;
  // The label's logit as a dot product apart; absent: the one among the logits.
  std::optional<double> label_logit;
  float temperature = 1;
  float g = 0, k = 0;  // d objective / d logprob, d entropy
  // The sum over the vocabulary of what log_softmax's backward is given; absent: `z` is all of it.
  std::optional<double> upstream;
};

template <class Real>
struct RowForward {
  Real logprob = 0, entropy = 0, lse = 0;
  // For the derivative: what the exponentials see as the maximum, s, and ln s.
  Real shift = 0, s = 0, log_s = 0;
};

// What the shortcuts make of the logits; `z` if there is nothing to do, else `memory`.
template <class Real>
std::span<const Real> ShortcutLogits(const Shortcuts& shortcuts, std::span<const Real> z,
                                     float temperature, std::vector<Real>* memory);

// `z`: the logits, [V], V > 0, finite. In double every operation is exact beside an error in fp32, and
// what is left are the shortcuts.
template <class Real>
RowForward<Real> ForwardOf(const Baseline& baseline, std::span<const Real> z, const RowScalars& row);

// The same from a row's lse and entropy, without logprob: the maximum of the exponentials is lse.
template <class Real>
RowForward<Real> ForwardFrom(const Baseline& baseline, double lse, double entropy,
                             const RowScalars& row);

// Rounds logprob, entropy and lse as they are stored; after DLogits, which reads what is not rounded.
template <class Real>
void RoundOutputs(const Shortcuts& shortcuts, RowForward<Real>* forward);

// d objective / d z, of every column of `z`, rounded to the baseline's dtype of d_logits. `z` may be
// other bits than forward's, or some columns of the vocabulary with `row.upstream`; the label is an
// index in `z`, or negative.
template <class Real>
void DLogits(const Baseline& baseline, std::span<const Real> z, const RowScalars& row,
             const RowForward<Real>& forward, std::span<Real> d);

}  // namespace plumbline::fuzz

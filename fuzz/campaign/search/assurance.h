// SPDX-License-Identifier: Apache-2.0
//
// Two claims that a campaign may make if it found nothing, or nothing new. Both are about the mix of
// cases that was drawn, and about nothing else. Neither says that there are no defects.

#pragma once

#include <cstdint>

namespace plumbline::fuzz {

// The estimated chance that the next blind case shows a cell (fuzz/campaign/search/features.h) that no
// blind case has shown.
struct NewCellChance {
  double estimate = 1;
  double at_most = 1;  // with 95 % confidence
};

// Good and Turing's estimate of the unseen part (I. J. Good, Biometrika 40, 1953): with n cases, of
// which `once` showed a cell that no other case showed, the next one shows a new cell with a chance of
// about once / n. With one cell a case this is the textbook's formula. With several it is
// leave-one-out: the share of cases that have a cell which all the others lack.
//
// The confidence term is Esty's (Annals of Statistics 11, 1983): the standard error sqrt(once (1 - once
// / n) + twice) / n, times 1.645 for 95 % on one side. `twice` counts the cases whose rarest cell one
// other case showed. The term vanishes if nothing is rare, so the limit is never below 3 / n.
//
// With n = 0 the chance is 1. Precondition: 0 <= once, twice and once + twice <= n.
NewCellChance GoodTuring(int64_t n, int64_t once, int64_t twice);

// The rule of three: if none of n cases failed, the share that fails is below 3 / n with 95 %
// confidence, because (1 - 3 / n)^n is nearly 0.05 (Hanley and Lippman-Hand, JAMA 249, 1983). Returns
// at most 1.
double RuleOfThree(int64_t n);

}  // namespace plumbline::fuzz

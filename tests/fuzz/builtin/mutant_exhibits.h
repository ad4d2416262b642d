// SPDX-License-Identifier: Apache-2.0
//
// For each mutant a recipe that shows its defect, and a twin that differs from it in one key and does
// not show it: that difference is the defect's trigger.

#ifndef PLUMBLINE_TESTS_FUZZ_BUILTIN_MUTANT_EXHIBITS_H_
#define PLUMBLINE_TESTS_FUZZ_BUILTIN_MUTANT_EXHIBITS_H_

#include <span>

namespace plumbline::fuzz::testing {

struct Exhibit {
  const char* mutant;
  const char* line;       // of a recipe
  const char* signature;  // one of those that it shows, on both arithmetics
  const char* twin;       // "key=value": the line with this key changed is computed as by the operator
};

std::span<const Exhibit> Exhibits();

}  // namespace plumbline::fuzz::testing

#endif  // PLUMBLINE_TESTS_FUZZ_BUILTIN_MUTANT_EXHIBITS_H_

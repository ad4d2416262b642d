// SPDX-License-Identifier: Apache-2.0
//
// Mutants: the host operator with one planted defect each, every one modelled on a bug that a public
// kernel of this kind has had. A harness that does not find them finds nothing. They claim host's
// contract, or that of host-hopper, with whose dot products there is one of each too.

#ifndef PLUMBLINE_FUZZ_TARGETS_MUTANTS_H_
#define PLUMBLINE_FUZZ_TARGETS_MUTANTS_H_

#include <span>
#include <string_view>

#include "fuzz/target_abi.h"

namespace plumbline::fuzz {

struct Mutant {
  std::string_view name;  // "tail-unmasked"
  std::string_view what;  // one line: the defect, and the bug it is modelled on
  const plumbline_target_v1* table;
};

std::span<const Mutant> Mutants();
std::span<const Mutant> HopperMutants();  // the same names in the same order

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGETS_MUTANTS_H_

// SPDX-License-Identifier: Apache-2.0
//
// Mutants: an operator with one planted defect each, the host's modelled on bugs that public kernels of
// this kind have had. A harness that does not find them finds nothing. They claim host's contract, or
// that of host-hopper, with whose dot products there is one of each too. Those of the CUDA operator are
// others, which only a GPU kernel can have (kernel/cuda/support/defects.h).

#ifndef PLUMBLINE_FUZZ_BUILTIN_MUTANTS_MUTANTS_H_
#define PLUMBLINE_FUZZ_BUILTIN_MUTANTS_MUTANTS_H_

#include <span>
#include <string_view>

#include "fuzz/target_abi.h"

namespace plumbline::fuzz {

struct Mutant {
  std::string_view name;  // "tail-unmasked"
  std::string_view what;  // one line: the defect, and the bug it is modelled on
  const plumbline_target_v1* table;
  bool deterministic = true;  // the same wrong bits every time
};

std::span<const Mutant> Mutants();
std::span<const Mutant> HopperMutants();  // the same names in the same order
std::span<const Mutant> CudaMutants();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BUILTIN_MUTANTS_MUTANTS_H_

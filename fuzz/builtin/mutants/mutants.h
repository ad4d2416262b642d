// SPDX-License-Identifier: Apache-2.0
//
// Mutants: operators with one defect each. Those of the host are modelled on bugs that public kernels
// of this kind have had. A harness that does not find the mutants proves nothing by finding nothing.
// Each host mutant exists twice, on the dot products of host and on those of host-hopper, and claims
// the contract of that target. The mutants of the CUDA operator are others, which only a GPU kernel can
// have (kernel/cuda/support/defects.h).

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

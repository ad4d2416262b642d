// SPDX-License-Identifier: Apache-2.0
//
// Mutants: operators with one defect each. Those of the host are modelled on bugs that public kernels
// of this kind have had. A harness that does not find the mutants proves nothing by finding nothing.
// Each host mutant exists twice, on the dot products of host and on those of host-hopper, and claims
// the contract of that target; those of stretches exist on host-hopper alone. The mutants of the CUDA
// operator are others, which only a GPU kernel can have. Each is a row of
// fuzz/builtin/mutants/table.txt.

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/mutants/table.h"
#include "fuzz/target/catalogue.h"

namespace plumbline::fuzz {

std::vector<BuiltIn> Mutants();
std::vector<BuiltIn> HopperMutants();  // the same defects in the same order, then those of stretches
std::vector<BuiltIn> CudaMutants();

// The mutants of the table's rows from kFirst on. Operator<row> is an Operator of
// fuzz/builtin/adapter.h.
template <template <size_t> class Operator, size_t kFirst, size_t... kRows>
std::vector<BuiltIn> MakeMutants(const std::string& prefix, const std::string& before,
                                 std::index_sequence<kRows...>) {
  std::vector<BuiltIn> mutants;
  const auto add = [&](const MutantRow& row, const plumbline_target_v1* table) {
    mutants.push_back({prefix + std::string(row.name),
                       (row.stretches ? "" : before) + std::string(row.what), table, row.deterministic,
                       false, std::string(row.black_box)});
  };
  (add(kMutants[kFirst + kRows], Entry<Operator<kFirst + kRows>>::Table()), ...);
  return mutants;
}

}  // namespace plumbline::fuzz

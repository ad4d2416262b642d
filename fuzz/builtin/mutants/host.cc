// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/mutants.h"

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"
#include "fuzz/builtin/mutants/host_hooks.h"
#include "kernel/host/operator.h"

namespace plumbline::fuzz {
namespace {

using kernel::Problem, kernel::Results, kernel::Status;

template <class Dots, size_t kRow>
struct MutantOperator {
  static constexpr MutantHooks<Dots> Hooks() {
    MutantHooks<Dots> hooks;
    hooks.active = static_cast<int>(kRow);
    return hooks;
  }

  static constexpr DLDeviceType kDevice = kDLCPU;
  static Status Run(const Problem& problem, const Results& results, void*) {
    return host::RunImpl(Hooks().Arguments(problem), results, /*threads=*/0, Hooks());
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return host::SizesImpl(problem, results, /*threads=*/0, sizes, Hooks());
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void*) {
    return host::ForwardImpl(Hooks().Arguments(problem), results, /*threads=*/0, workspace, saved,
                             Hooks());
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void*) {
    return host::BackwardImpl(Hooks().Arguments(problem), results, /*threads=*/0, workspace, saved,
                              Hooks());
  }
  static std::string Describe() {
    const std::string name(kMutants[kRow].name);
    return std::is_same_v<Dots, host::FusedChains> ? HostDescription("mutant:" + name)
                                                   : HostHopperDescription("hopper-mutant:" + name);
  }
};

template <size_t kRow>
using OnHost = MutantOperator<host::FusedChains, kRow>;
template <size_t kRow>
using OnHopper = MutantOperator<host::TensorCores, kRow>;
template <const auto& kRows>
using RowsOf = std::make_index_sequence<kRows.size()>;

}  // namespace

std::vector<BuiltIn> Mutants() { return MakeMutants<OnHost, 0>("mutant:", "", RowsOf<kHostMutants>()); }

std::vector<BuiltIn> HopperMutants() {
  return MakeMutants<OnHopper, 0>(
      "hopper-mutant:", "the same defect on host-hopper: ", RowsOf<kHopperMutants>());
}

}  // namespace plumbline::fuzz

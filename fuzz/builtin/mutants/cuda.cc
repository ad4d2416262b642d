// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/mutants/cuda_call.h"
#include "fuzz/builtin/mutants/mutants.h"
#include "kernel/cuda/support/defects.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;
using kernel::cuda::kDefects;

template <size_t kIndex>
struct CudaMutantOperator {
  static constexpr DLDeviceType kDevice = kDLCUDA;
  static Status Run(const Problem& problem, const Results& results, void* stream) {
    return RunInScratch<CudaMutantOperator>(problem, results, stream);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, OnCuda(nullptr, CudaPath::kBest), sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void* stream) {
    return ForwardPlanted(problem, results, workspace, saved, stream, kDefects[kIndex]);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void* stream) {
    return BackwardPlanted(problem, results, workspace, saved, stream, kDefects[kIndex]);
  }
  static const char* Describe() {
    static const std::string description =
        CudaDescription("cuda-mutant:" + std::string(kDefects[kIndex].name));
    return description.c_str();
  }
};

// The mutants of gradients in forward.
template <size_t kIndex>
struct PlantedForwardBackward {
  static constexpr CudaPath kPath = CudaPath::kBest;
  static Status Enqueue(const Problem& problem, const Results& results,
                        const kernel::Execution& execution, const kernel::UpstreamGradients& upstream,
                        void* workspace) {
    return ForwardBackwardPlanted(problem, results, execution, upstream, workspace, kDefects[kIndex]);
  }
};

template <size_t kIndex>
struct ForwardBackwardMutant : ForwardBackwardOperator<PlantedForwardBackward<kIndex>> {
  static const char* Describe() { return CudaMutantOperator<kIndex>::Describe(); }
};

template <size_t kIndex>
using MutantOperator = std::conditional_t<kDefects[kIndex].in_forward, ForwardBackwardMutant<kIndex>,
                                          CudaMutantOperator<kIndex>>;

template <size_t... kIndices>
auto MakeMutants(std::index_sequence<kIndices...>) {
  return std::array{Mutant{kDefects[kIndices].name, kDefects[kIndices].what,
                           Entry<MutantOperator<kIndices>>::Table(),
                           kDefects[kIndices].deterministic}...};
}

}  // namespace

std::span<const Mutant> CudaMutants() {
  static const auto mutants = MakeMutants(std::make_index_sequence<std::size(kDefects)>());
  return mutants;
}

}  // namespace plumbline::fuzz

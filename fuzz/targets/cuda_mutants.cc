// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "fuzz/targets/cuda.h"
#include "fuzz/targets/entry.h"
#include "fuzz/targets/mutants.h"
#include "kernel/cuda/planted.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;
using kernel::cuda::kDefects;

template <size_t kIndex>
struct CudaMutantOperator {
  static constexpr DLDeviceType kDevice = kDLCUDA;
  static constexpr CudaPath kPath = kDefects[kIndex].portable ? CudaPath::kPortable : CudaPath::kBest;

  static Status Run(const Problem& problem, const Results& results, void* stream) {
    kernel::Sizes sizes;
    Status status = GetSizes(problem, results, &sizes);
    if (!status.ok()) return status;
    const CudaScratch scratch = KeepCudaScratch(sizes);
    status = Forward(problem, results, scratch.workspace, scratch.saved, stream);
    if (!status.ok() || (!results.grad_hidden && !results.grad_weight)) return status;
    return Backward(problem, results, scratch.workspace, scratch.saved, stream);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, OnCuda(nullptr, kPath), sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void* stream) {
    return kernel::cuda::ForwardPlanted(problem, results, OnCuda(stream, kPath), workspace, saved,
                                        kDefects[kIndex].defect);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void* stream) {
    return kernel::cuda::BackwardPlanted(problem, results, OnCuda(stream, kPath), workspace, saved,
                                         kDefects[kIndex].defect);
  }
  static const char* Describe() {
    static const std::string description =
        CudaDescription("cuda-mutant:" + std::string(kDefects[kIndex].name));
    return description.c_str();
  }
};

template <size_t... kIndices>
auto MakeMutants(std::index_sequence<kIndices...>) {
  return std::array{Mutant{kDefects[kIndices].name, kDefects[kIndices].what,
                           Entry<CudaMutantOperator<kIndices>>::Table(),
                           kDefects[kIndices].deterministic}...};
}

}  // namespace

std::span<const Mutant> CudaMutants() {
  static const auto mutants = MakeMutants(std::make_index_sequence<std::size(kDefects)>());
  return mutants;
}

}  // namespace plumbline::fuzz

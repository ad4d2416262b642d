// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/cuda_way.h"
#include "fuzz/builtin/mutants/cuda_paths.h"
#include "fuzz/builtin/mutants/mutants.h"
#include "kernel/cuda/operator.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;
using kernel::cuda::Path;

thread_local CudaMutantCall current;
thread_local int64_t forwards = 0;  // passes that have begun

// Calls `run` with the problem as the mutant reads it, and with the path that has the defect.
template <class Run>
Status Call(size_t row, const Problem& problem, const Results& results, void* workspace, Run run) {
  const Path* path = nullptr;
  const Status found = FindPath(kMutants[row], &path);
  if (!found.ok()) return found;
  Problem seen = problem;
  current = {static_cast<int>(row), &seen, &results, static_cast<std::byte*>(workspace), forwards};
  if (current.Is("strides-32-bit")) {
    for (kernel::ConstTensor* matrix : {&seen.hidden, &seen.weight}) {
      for (int64_t& stride : matrix->stride) stride = static_cast<int32_t>(stride);
    }
  }
  const Status ran = run(seen, path);
  current = {};
  return ran;
}

// Returns how a mutant's state is made: it is consumed where that is the defect.
kernel::Execution OfRow(size_t row, void* stream) {
  kernel::Execution execution = OnCuda(stream, CudaPath::kBest);
  if (kMutants[row].name == "consumed-state-twice") {
    execution.saved_logits_bytes = ~size_t{0};
    execution.saved_is_consumed = true;
  }
  return execution;
}

template <size_t kRow>
struct CudaMutantOperator {
  static constexpr DLDeviceType kDevice = kDLCUDA;
  static Status Run(const Problem& problem, const Results& results, void* stream) {
    return RunInScratch<CudaMutantOperator>(problem, results, stream);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, OfRow(kRow, nullptr), sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void* stream) {
    ++forwards;
    return Call(kRow, problem, results, workspace, [&](const Problem& seen, const Path* path) {
      return kernel::cuda::Forward(seen, results, OfRow(kRow, stream), workspace, saved, path);
    });
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void* stream) {
    return Call(kRow, problem, results, workspace, [&](const Problem& seen, const Path* path) {
      const auto backward = [&] {
        return kernel::cuda::Backward(seen, results, OfRow(kRow, stream), workspace, saved, path);
      };
      const bool twice = current.Is("consumed-state-twice") && problem.rows() > 0;
      return twice ? WithItsHeaderAgain(saved, stream, backward) : backward();
    });
  }
  static std::string Describe() {
    return CudaDescription("cuda-mutant:" + std::string(kMutants[kRow].name));
  }
};

// The mutants of gradients in forward.
template <size_t kRow>
struct ForwardBackwardCall {
  static constexpr CudaPath kPath = CudaPath::kBest;
  static Status Enqueue(const Problem& problem, const Results& results, const CudaWay& way,
                        const kernel::UpstreamGradients& upstream, void* workspace) {
    return Call(kRow, problem, results, workspace, [&](const Problem& seen, const Path* path) {
      return kernel::cuda::ForwardBackward(seen, results, way.execution, upstream, workspace, path,
                                           way.chunk_columns);
    });
  }
};

template <size_t kRow>
struct ForwardBackwardMutant : ForwardBackwardOperator<ForwardBackwardCall<kRow>> {
  static std::string Describe() { return CudaMutantOperator<kRow>::Describe(); }
};

template <size_t kRow>
using MutantOperator = std::conditional_t<kMutants[kRow].path == MutantPath::kCudaForwardBackward,
                                          ForwardBackwardMutant<kRow>, CudaMutantOperator<kRow>>;

}  // namespace

const CudaMutantCall& CurrentCall() { return current; }

std::vector<BuiltIn> CudaMutants() {
  return MakeMutants<MutantOperator, kHopperMutants.size()>(
      "cuda-mutant:", "", std::make_index_sequence<kMutants.size() - kHopperMutants.size()>());
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/cuda_forward_backward.h"

#include <string>

#include "fuzz/builtin/adapter.h"
#include "kernel/cuda/operator.h"

namespace plumbline::fuzz {
namespace {

using kernel::Problem, kernel::Results, kernel::Status;

struct Sound {
  static constexpr kernel::CudaPath kPath = kernel::CudaPath::kBest;
  static Status Enqueue(const Problem& problem, const Results& results, const CudaWay& way,
                        const kernel::UpstreamGradients& upstream, void* workspace) {
    const auto [execution, chunk] = way;
    return chunk == 0 ? kernel::ForwardBackward(problem, results, execution, upstream, workspace)
                      : kernel::cuda::ForwardBackward(problem, results, execution, upstream, workspace,
                                                      /*path=*/nullptr, chunk);
  }
};

struct CudaForwardBackward : ForwardBackwardOperator<Sound> {
  static std::string Describe() { return CudaDescription("cuda-forward-backward"); }
};

}  // namespace

const plumbline_target_v1* CudaForwardBackwardTarget() { return Entry<CudaForwardBackward>::Table(); }

CudaWay KeepingSome(const Problem& problem, void* stream, kernel::CudaPath path) {
  CudaWay way = {OnCuda(stream, path), ChunkColumnsOf(problem)};
  kernel::Execution& execution = way.execution;
  execution.kept_form = FormOf(problem);
  const int64_t n = problem.rows(), v = problem.vocab();
  if ((n + problem.hidden_size() + v) % 2 != 0) {
    execution.kept_logits_bytes =
        static_cast<size_t>(n) * static_cast<size_t>(v) * KeptBytes(problem, execution.kept_form) / 2;
  }
  if ((n + v) % 3 != 0) execution.block_rows = 64;
  return way;
}

Status SizeOfKeeping(const Problem& problem, const Results& results, const CudaWay& way,
                     size_t* workspace) {
  const auto [execution, chunk] = way;
  return chunk == 0
             ? kernel::GetForwardBackwardSize(problem, results, execution, workspace)
             : kernel::cuda::GetForwardBackwardSize(problem, results, execution, workspace, chunk);
}

}  // namespace plumbline::fuzz

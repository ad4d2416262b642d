// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/cuda_forward_backward.h"

#include <string>

#include "fuzz/builtin/adapter.h"

namespace plumbline::fuzz {
namespace {

struct Sound {
  static constexpr kernel::CudaPath kPath = kernel::CudaPath::kBest;
  static constexpr auto Enqueue = &kernel::ForwardBackward;
};

struct CudaForwardBackward : ForwardBackwardOperator<Sound> {
  static std::string Describe() { return CudaDescription("cuda-forward-backward"); }
};

}  // namespace

const plumbline_target_v1* CudaForwardBackwardTarget() { return Entry<CudaForwardBackward>::Table(); }

kernel::Execution KeepingSome(const kernel::Problem& problem, void* stream, kernel::CudaPath path) {
  kernel::Execution execution = OnCuda(stream, path);
  const int64_t n = problem.rows(), v = problem.vocab();
  if ((n + problem.hidden_size() + v) % 2 != 0) {
    execution.kept_logits_bytes =
        static_cast<size_t>(n) * static_cast<size_t>(v) * KeptBytes(problem) / 2;
  }
  if ((n + v) % 3 != 0) execution.block_rows = 64;
  return execution;
}

}  // namespace plumbline::fuzz

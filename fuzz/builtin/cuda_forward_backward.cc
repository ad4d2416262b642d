// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/cuda_forward_backward.h"

#include <string>

#include "fuzz/builtin/adapter.h"

namespace plumbline::fuzz {
namespace {

using kernel::Problem, kernel::Results, kernel::Status;

struct Sound {
  static constexpr kernel::CudaPath kPath = kernel::CudaPath::kBest;
  static Status Enqueue(const Problem& problem, const Results& results, const CudaWay& way,
                        const kernel::UpstreamGradients& upstream, void* workspace) {
    return ForwardBackward(problem, results, way, upstream, workspace);
  }
};

struct CudaForwardBackward : ForwardBackwardOperator<Sound> {
  static std::string Describe() { return CudaDescription("cuda-forward-backward"); }
};

}  // namespace

const plumbline_target_v1* CudaForwardBackwardTarget() { return Entry<CudaForwardBackward>::Table(); }

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/cuda_way.h"

#include <initializer_list>

#include "kernel/cuda/operator.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;

// Returns a number that has nothing to do with that of neighbouring extents.
uint64_t HashOf(std::initializer_list<int64_t> extents) {
  uint64_t hash = 0;
  for (const int64_t extent : extents) {
    hash = (hash ^ static_cast<uint64_t>(extent)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t HashOf(const Problem& problem) {
  return HashOf({problem.rows(), problem.hidden_size(), problem.vocab()});
}

// Returns the bytes of a logit that is kept, or of the exponent in its place.
size_t KeptBytes(const Problem& problem, kernel::KeptForm form) {
  const bool exponents =
      problem.hidden.dtype == kernel::DType::kBf16 && form == kernel::KeptForm::kDefault;
  return exponents ? 2 : sizeof(float);
}

kernel::KeptForm FormOf(const Problem& problem) {
  return HashOf({problem.hidden_size(), problem.vocab()}) % 3 == 2 ? kernel::KeptForm::kLogits
                                                                   : kernel::KeptForm::kDefault;
}

int64_t ChunkColumnsOf(const Problem& problem) {
  constexpr int64_t kColumns[] = {0, 0, 384, 2304};
  constexpr double kMost = 0x1p30;  // products; memory divides larger problems itself
  const double products = static_cast<double>(problem.rows()) *
                          static_cast<double>(problem.hidden_size()) *
                          static_cast<double>(problem.vocab());
  return products > kMost ? 0 : kColumns[HashOf(problem) % 4];
}

}  // namespace

kernel::Execution OnCuda(void* stream, CudaPath path) {
  return {.device = kernel::Device::kCuda, .threads = 0, .stream = stream, .path = path};
}

CudaWay SavingSome(const Problem& problem, void* stream, CudaPath path) {
  CudaWay way = {OnCuda(stream, path), ChunkColumnsOf(problem)};
  kernel::Execution& execution = way.execution;
  execution.kept_form = FormOf(problem);
  execution.saved_is_consumed = HashOf(problem) / 4 % 2 != 0;
  const int64_t n = problem.rows(), v = problem.vocab(), third = (n + problem.hidden_size() + v) % 3;
  const size_t logits =
      static_cast<size_t>(n) * static_cast<size_t>(v) * KeptBytes(problem, execution.kept_form);
  execution.saved_logits_bytes = third == 0 ? 0 : third == 1 ? logits / 2 : ~size_t{0};
  return way;
}

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

Status GetSizes(const Problem& problem, const Results& results, const CudaWay& way,
                kernel::Sizes* sizes) {
  return way.chunk_columns == 0
             ? kernel::GetSizes(problem, results, way.execution, sizes)
             : kernel::cuda::GetSizes(problem, results, way.execution, sizes, way.chunk_columns);
}

Status Forward(const Problem& problem, const Results& results, const CudaWay& way, void* workspace,
               void* saved) {
  return way.chunk_columns == 0 ? kernel::Forward(problem, results, way.execution, workspace, saved)
                                : kernel::cuda::Forward(problem, results, way.execution, workspace,
                                                        saved, /*path=*/nullptr, way.chunk_columns);
}

Status Backward(const Problem& problem, const Results& results, const CudaWay& way, void* workspace,
                const void* saved) {
  return way.chunk_columns == 0 ? kernel::Backward(problem, results, way.execution, workspace, saved)
                                : kernel::cuda::Backward(problem, results, way.execution, workspace,
                                                         saved, /*path=*/nullptr, way.chunk_columns);
}

Status GetForwardBackwardSize(const Problem& problem, const Results& results, const CudaWay& way,
                              size_t* workspace) {
  return way.chunk_columns == 0
             ? kernel::GetForwardBackwardSize(problem, results, way.execution, workspace)
             : kernel::cuda::GetForwardBackwardSize(problem, results, way.execution, workspace,
                                                    way.chunk_columns);
}

Status ForwardBackward(const Problem& problem, const Results& results, const CudaWay& way,
                       const kernel::UpstreamGradients& upstream, void* workspace) {
  return way.chunk_columns == 0
             ? kernel::ForwardBackward(problem, results, way.execution, upstream, workspace)
             : kernel::cuda::ForwardBackward(problem, results, way.execution, upstream, workspace,
                                             /*path=*/nullptr, way.chunk_columns);
}

}  // namespace plumbline::fuzz

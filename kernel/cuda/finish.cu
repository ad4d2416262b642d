// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/finish.h"

#include <algorithm>

#include "kernel/cuda/defects.h"
#include "kernel/cuda/finish_rows.cuh"
#include "kernel/cuda/fragment.cuh"
#include "kernel/cuda/launch.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kLossThreads = 1024;

__global__ void __launch_bounds__(kLossThreads)
    FinishLossKernel(const float* row_logprob, int64_t rows, const Census* census, bool mean,
                     float* loss) {
  __shared__ double sums[kLossThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kLossThreads) sum += static_cast<double>(row_logprob[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kLossThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double counted = static_cast<double>(census->counted);
  const double total = mean && counted > 0 ? sums[0] / counted : sums[0];
  *loss = static_cast<float>(0.0 - total);  // a loss of 0 is +0
}

constexpr int kStoreThreads = 256;

__global__ void __launch_bounds__(kStoreThreads)
    FinishGradHiddenKernel(const float* sums, int64_t ld, const int32_t* slot,
                           const GradHiddenOutput output) {
  for (int64_t i = blockIdx.x; i < output.rows; i += gridDim.x) {
    const int32_t place = slot[i];
    for (int64_t c = threadIdx.x; c < output.columns; c += kStoreThreads) {
      const float x = place >= 0 ? sums[place * ld + c] : place == kInvalidRow ? QuietNaN() : 0.0f;
      StoreAs(output.stored, output.data, i * output.row_stride + c * output.column_stride, x);
    }
  }
}

}  // namespace

Status FinishRows(const PartialSums& partial, const ForwardList& list, const ForwardOutputs& outputs,
                  SavedRow* saved, cudaStream_t stream) {
  return LaunchFinishRows(partial, list, outputs, saved, stream, NoDefects());
}

Status FinishLoss(const float* row_logprob, int64_t rows, const Census* census, bool mean, float* loss,
                  cudaStream_t stream) {
  return LaunchKernel("FinishLoss", FinishLossKernel, 1, kLossThreads, 0, stream, row_logprob, rows,
                      census, mean, loss);
}

Status FinishGradHidden(const float* sums, int64_t ld, const int32_t* slot,
                        const GradHiddenOutput& output, cudaStream_t stream) {
  const int64_t blocks = std::min(output.rows, kMostFinishBlocks);
  if (blocks == 0) return Status::Ok();
  return LaunchKernel("FinishGradHidden", FinishGradHiddenKernel, blocks, kStoreThreads, 0, stream,
                      sums, ld, slot, output);
}

}  // namespace plumbline::kernel::cuda

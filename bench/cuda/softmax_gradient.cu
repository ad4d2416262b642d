// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/softmax_gradient.h"

#include <cuda_bf16.h>

#include "bench/cuda/memory.h"

namespace plumbline::bench {
namespace {

constexpr int kThreads = 512;

__device__ inline float At(const Bf16* row, int64_t i) {
  return __bfloat162float(__ushort_as_bfloat16(row[i]));
}

template <class Merge>
__device__ float OverBlock(float value, Merge merge) {
  __shared__ float warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value = merge(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int i = 1; i < kThreads / 32; ++i) value = merge(value, warps[i]);
  return value;
}

// One block handles a row: two reads for the sums, one pass to write.
__global__ void __launch_bounds__(kThreads) Rows(SoftmaxGradient a) {
  const auto larger = [](float x, float y) { return fmaxf(x, y); };
  const auto sum_of = [](float x, float y) { return x + y; };
  const int64_t row = blockIdx.x;
  const Bf16* const z = a.logits + row * a.v;
  float most = -INFINITY, farthest = 0;
  for (int64_t i = threadIdx.x; i < a.v; i += kThreads) {
    most = fmaxf(most, At(z, i));
    farthest = fmaxf(farthest, fabsf(At(z, i)));
  }
  most = OverBlock(most, larger);
  farthest = OverBlock(farthest, larger);
  float s = 0, q = 0;
  for (int64_t i = threadIdx.x; i < a.v; i += kThreads) {
    const float t = most - At(z, i), e = expf(-t);
    s += e;
    q += e * t;
  }
  s = OverBlock(s, sum_of);
  q = OverBlock(q, sum_of);
  const float log_s = logf(s), entropy = log_s + q / s, g = a.g[row], k = a.k[row];
  const int64_t label = a.labels[row];
  for (int64_t i = threadIdx.x; i < a.v; i += kThreads) {
    const float log_p = -(most - At(z, i) + log_s), p = expf(log_p);
    const float d = g * ((i == label ? 1.f : 0.f) - p) - k * (p * (log_p + entropy));
    a.d_logits[row * a.v + i] = __bfloat16_as_ushort(__float2bfloat16_rn(d));
  }
  if (threadIdx.x != 0) return;
  a.logprob[row] = -(most - At(z, label) + log_s);
  a.largest[row] = farthest;
}

}  // namespace

void SoftmaxGradient::Enqueue(cudaStream_t stream) const {
  Rows<<<static_cast<unsigned>(n), kThreads, 0, stream>>>(*this);
  Check(cudaGetLastError(), "SoftmaxGradient");
}

}  // namespace plumbline::bench

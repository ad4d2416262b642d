// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/fill.h"

#include <cuda_bf16.h>
#include <curand_kernel.h>

#include "bench/cuda/memory.h"

namespace plumbline::bench {
namespace {

constexpr int kThreads = 256, kBlocks = 132 * 8;  // grid-stride loops cover any size

__device__ inline int64_t First() { return blockIdx.x * int64_t{blockDim.x} + threadIdx.x; }
__device__ inline int64_t Step() { return int64_t{gridDim.x} * blockDim.x; }

__device__ inline void Assign(float* to, float value) { *to = value; }
__device__ inline void Assign(Bf16* to, float value) {
  *to = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

template <class T>
__global__ void Normal(T* out, int64_t count, float scale, uint64_t seed) {
  for (int64_t i = First(); i * 4 < count; i += Step()) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, static_cast<unsigned long long>(i), 0, &state);
    const float4 four = curand_normal4(&state);
    const float values[4] = {four.x, four.y, four.z, four.w};
    for (int64_t j = 0; j < 4 && i * 4 + j < count; ++j) Assign(out + i * 4 + j, scale * values[j]);
  }
}

template <class T>
__global__ void Pick(const T* in, const int64_t* rows, int64_t count, int64_t width, T* out) {
  for (int64_t i = First(); i < count * width; i += Step())
    out[i] = in[rows[i / width] * width + i % width];
}

__global__ void Squares(const Bf16* in, int64_t count, double* sum) {
  double mine = 0;
  for (int64_t i = First(); i < count; i += Step()) {
    const double x = __bfloat162float(__ushort_as_bfloat16(in[i]));
    mine += x * x;
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

}  // namespace

template <class T>
void FillNormal(T* out, int64_t count, float scale, uint64_t seed, cudaStream_t stream) {
  Normal<<<kBlocks, kThreads, 0, stream>>>(out, count, scale, seed);
  Check(cudaGetLastError(), "FillNormal");
}
template void FillNormal(Bf16*, int64_t, float, uint64_t, cudaStream_t);
template void FillNormal(float*, int64_t, float, uint64_t, cudaStream_t);

template <class T>
void PickRows(const T* in, const int64_t* rows, int64_t count, int64_t width, T* out,
              cudaStream_t stream) {
  Pick<<<kBlocks, kThreads, 0, stream>>>(in, rows, count, width, out);
  Check(cudaGetLastError(), "PickRows");
}
template void PickRows(const Bf16*, const int64_t*, int64_t, int64_t, Bf16*, cudaStream_t);
template void PickRows(const float*, const int64_t*, int64_t, int64_t, float*, cudaStream_t);
template void PickRows(const int64_t*, const int64_t*, int64_t, int64_t, int64_t*, cudaStream_t);

void AddSquares(const Bf16* in, int64_t count, double* sum, cudaStream_t stream) {
  Squares<<<kBlocks, kThreads, 0, stream>>>(in, count, sum);
  Check(cudaGetLastError(), "AddSquares");
}

}  // namespace plumbline::bench

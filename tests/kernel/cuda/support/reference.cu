// SPDX-License-Identifier: Apache-2.0

#include "tests/kernel/cuda/support/reference.h"

#include <cuda_runtime.h>

namespace plumbline::kernel::device {
namespace {

__device__ float Widened(uint16_t bits) {
  return __uint_as_float(static_cast<unsigned int>(bits) << 16);
}

__device__ int64_t First() {
  return static_cast<int64_t>(blockIdx.x) * static_cast<int64_t>(blockDim.x) + threadIdx.x;
}
__device__ int64_t Step() { return static_cast<int64_t>(gridDim.x) * static_cast<int64_t>(blockDim.x); }

__global__ void FillKernel(uint16_t* data, int64_t rows, int64_t columns, int64_t stride, uint64_t seed,
                           float scale) {
  for (int64_t e = First(); e < rows * columns; e += Step()) {
    uint64_t x = seed + static_cast<uint64_t>(e) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    const auto value = static_cast<float>(static_cast<int>((x ^ (x >> 31)) % 5) - 2) * scale;
    data[e / columns * stride + e % columns] = static_cast<uint16_t>(__float_as_uint(value) >> 16);
  }
}

// A warp a column, so that rows of weight are read contiguously.
__global__ void LogitKernel(const uint16_t* hidden, const uint16_t* weight, int64_t vocab,
                            int64_t depth, int64_t stride, double* z) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t v = First() / 32; v < vocab; v += Step() / 32) {
    double sum = 0;
    for (int64_t k = lane; k < depth; k += 32) {
      sum += static_cast<double>(Widened(hidden[k])) *
             static_cast<double>(Widened(weight[v * stride + k]));
    }
    for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0) z[v] = sum;
  }
}

__global__ void CompareKernel(const unsigned char* a, const unsigned char* b, int64_t bytes,
                              int* differ) {
  for (int64_t i = First(); i < bytes; i += Step()) {
    if (a[i] != b[i]) *differ = 1;
  }
}

__global__ void LoadKernel(float* floats, int64_t count) {
  for (int64_t i = First(); i < count; i += Step()) {
    float x = floats[i];
    for (int round = 0; round < 64; ++round) x = fmaf(x, 0.999f, 0.001f);
    floats[i] = x;
  }
}

}  // namespace

void FillBf16(void* data, int64_t rows, int64_t columns, int64_t stride, uint64_t seed, int exponent) {
  float scale = 1;
  for (int i = 0; i < exponent; ++i) scale *= 2;
  for (int i = 0; i > exponent; --i) scale /= 2;
  FillKernel<<<4096, 256>>>(static_cast<uint16_t*>(data), rows, columns, stride, seed, scale);
}

void RowLogits(const void* hidden_row, const void* weight, int64_t vocab, int64_t depth,
               int64_t weight_stride, double* z) {
  LogitKernel<<<4096, 256>>>(static_cast<const uint16_t*>(hidden_row),
                             static_cast<const uint16_t*>(weight), vocab, depth, weight_stride, z);
}

void Compare(const void* a, const void* b, int64_t bytes, int* differ, void* stream) {
  CompareKernel<<<1024, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const unsigned char*>(a), static_cast<const unsigned char*>(b), bytes, differ);
}

void Load(float* floats, int64_t count, void* stream) {
  LoadKernel<<<256, 256, 0, static_cast<cudaStream_t>(stream)>>>(floats, count);
}

}  // namespace plumbline::kernel::device

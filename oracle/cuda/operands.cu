// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/budget/forward_bound-inl.h"
#include "oracle/cuda/launch.h"
#include "oracle/cuda/load.cuh"

namespace plumbline::oracle::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;

unsigned Blocks(int64_t work, int64_t each) {
  const int64_t blocks = (work + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

__global__ void WidenKernel(Matrix source, const int64_t* list, int64_t first, int64_t count,
                            int64_t columns, double least, double* value, double* magnitude,
                            int64_t ld) {
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const int64_t row = list != nullptr ? list[i] : first + i;
    for (int64_t j = threadIdx.x; j < ld; j += blockDim.x) {
      const double x = j < columns ? LoadFloat(source, row, j) : 0;
      value[i * ld + j] = x;
      magnitude[i * ld + j] = Raised(fabs(x), least);
    }
  }
}

// Widens along the columns of a matrix whose rows are adjacent. It goes through shared memory, so that
// both sides are read and written in runs.
__global__ void WidenTransposedKernel(Matrix source, int64_t first, int64_t count, int64_t columns,
                                      double least, double* value, double* magnitude, int64_t ld) {
  __shared__ double tile[32][33];
  const int64_t across = (ld + 31) / 32, tiles = (count + 31) / 32 * across;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t i0 = t / across * 32, j0 = t % across * 32;
    for (int k = static_cast<int>(threadIdx.x) / 32; k < 32; k += kThreads / 32) {
      const int64_t i = i0 + threadIdx.x % 32, j = j0 + k;
      tile[k][threadIdx.x % 32] = i < count && j < columns ? LoadFloat(source, first + i, j) : 0;
    }
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x) / 32; k < 32; k += kThreads / 32) {
      const int64_t i = i0 + k, j = j0 + threadIdx.x % 32;
      if (i < count && j < ld) {
        const double x = tile[threadIdx.x % 32][k];
        value[i * ld + j] = x;
        magnitude[i * ld + j] = Raised(fabs(x), least);
      }
    }
    __syncthreads();
  }
}

// Inputs have at most 24 bits and exponents of fp32, so in fp64 none is subnormal.
__device__ double LowestBit(double x) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0 || exponent == 0x7ff) return kInfinite;
  const int zeros = __ffsll(static_cast<long long>(bits | 1ULL << 52)) - 1;
  return __longlong_as_double(static_cast<long long>(exponent - 52 + zeros) << 52);
}

__global__ void LowestBitsKernel(const double* value, int64_t rows, int64_t columns, int64_t ld,
                                 double* lowest) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * blockDim.x / 32;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < rows;
       i += warps) {
    double least = kInfinite;
    for (int64_t j = lane; j < columns; j += 32) least = fmin(least, LowestBit(value[i * ld + j]));
    for (int step = 16; step > 0; step /= 2) {
      least = fmin(least, __shfl_xor_sync(0xffffffffu, least, step));
    }
    if (lane == 0) lowest[i] = least;
  }
}

// Doubles that are not negative have the order of their bits as integers.
__global__ void MaximaKernel(const double* magnitude, int64_t rows, int64_t columns, int64_t ld,
                             double* largest) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= columns) return;
  double most = 0;
  for (int64_t i = blockIdx.y; i < rows; i += gridDim.y) {
    const double x = magnitude[i * ld + j];
    if (x > most && !isinf(x)) most = x;
  }
  atomicMax(reinterpret_cast<unsigned long long*>(largest) + j,
            static_cast<unsigned long long>(__double_as_longlong(most)));
}

template <class Word>
__global__ void GatherKernel(const Word* source, int64_t stride, int64_t count, Word* dense) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    dense[i] = source[i * stride];
  }
}

}  // namespace

void Widen(const Matrix& source, const int64_t* list, int64_t first, int64_t count, int64_t columns,
           double least, double* value, double* magnitude, int64_t ld) {
  if (count == 0 || ld == 0) return;
  if (list == nullptr && source.stride[0] == 1 && source.stride[1] != 1) {
    WidenTransposedKernel<<<Blocks(count * ld, 1024), kThreads>>>(source, first, count, columns, least,
                                                                  value, magnitude, ld);
    return;
  }
  WidenKernel<<<Blocks(count, 1), kThreads>>>(source, list, first, count, columns, least, value,
                                              magnitude, ld);
}

void LowestBits(const double* value, int64_t rows, int64_t columns, int64_t ld, double* lowest) {
  if (rows == 0) return;
  LowestBitsKernel<<<Blocks(rows, kThreads / 32), kThreads>>>(value, rows, columns, ld, lowest);
}

void Maxima(const double* magnitude, int64_t rows, int64_t columns, int64_t ld, double* largest) {
  if (rows == 0 || columns == 0) return;
  const dim3 grid(Blocks(columns, kThreads), Blocks(rows, 128));
  MaximaKernel<<<grid, kThreads>>>(magnitude, rows, columns, ld, largest);
}

void Gather(const void* source, int64_t stride, int bytes, int64_t count, void* dense) {
  if (count == 0) return;
  const unsigned blocks = Blocks(count, kThreads);
  if (bytes == 8) {
    GatherKernel<<<blocks, kThreads>>>(static_cast<const uint64_t*>(source), stride, count,
                                       static_cast<uint64_t*>(dense));
  } else {
    GatherKernel<<<blocks, kThreads>>>(static_cast<const uint32_t*>(source), stride, count,
                                       static_cast<uint32_t*>(dense));
  }
}

}  // namespace plumbline::oracle::cuda

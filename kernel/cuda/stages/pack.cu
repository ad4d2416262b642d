// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/stages/pack.h"

#include <algorithm>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int64_t kStep = 64;  // of the depth, in the widest main loop
// 16 for each of 132 multiprocessors; most calls pack nothing, and 8192 empty blocks took 7 us.
constexpr int64_t kMostBlocks = 2112;

struct Task {
  const void* from;
  int64_t row_stride, column_stride, columns;
  int64_t first, rows;
  const int32_t *list, *live, *only_if;
  uint16_t* to;
  int64_t ld, plane_stride;
};

// The number of rows that hold data, and of rows that are written.
struct Extent {
  int64_t live, written;
};

__device__ Extent ExtentOf(const Task& task) {
  if (task.only_if != nullptr && *task.only_if == 0) return {0, 0};
  int64_t live = task.rows;
  if (task.live != nullptr) {
    const int64_t left = *task.live - task.first;
    live = left < 0 ? 0 : left < live ? left : live;
  }
  const int64_t whole = (live + kStep - 1) / kStep * kStep;
  return {live, whole < task.rows ? whole : task.rows};
}

__device__ int64_t SourceRow(const Task& task, int64_t r) {
  return task.list != nullptr ? task.list[task.first + r] : task.first + r;
}

__device__ void Put(const Task& task, int64_t at, uint16_t bits) { task.to[at] = bits; }

__device__ void Put(const Task& task, int64_t at, float x) {
  StorePlanes(SplitPlanes(x), reinterpret_cast<__nv_bfloat16*>(task.to) + at, task.plane_stride);
}

// Packs a matrix with contiguous rows; threads go along a row.
template <class Element>
__global__ void __launch_bounds__(kThreads) PackRowsKernel(const Task task) {
  AwaitPreviousGrid();
  AllowNextGrid();
  const Extent extent = ExtentOf(task);
  for (int64_t r = blockIdx.x; r < extent.written; r += gridDim.x) {
    const Element* row = nullptr;
    if (r < extent.live)
      row = static_cast<const Element*>(task.from) + SourceRow(task, r) * task.row_stride;
    for (int64_t c = threadIdx.x; c < task.ld; c += kThreads) {
      Put(task, r * task.ld + c, row != nullptr && c < task.columns ? row[c] : Element{});
    }
  }
}

// Packs contiguous rows, 16 bytes at a time.
__global__ void __launch_bounds__(kThreads) PackChunksKernel(const Task task) {
  AwaitPreviousGrid();
  AllowNextGrid();
  const Extent extent = ExtentOf(task);
  const int64_t chunks = task.ld / 8;
  for (int64_t r = blockIdx.x; r < extent.written; r += gridDim.x) {
    const uint16_t* row = nullptr;
    if (r < extent.live)
      row = static_cast<const uint16_t*>(task.from) + SourceRow(task, r) * task.row_stride;
    for (int64_t c = threadIdx.x; c < chunks; c += kThreads) {
      uint4 value = {0, 0, 0, 0};
      if (row != nullptr) value = *reinterpret_cast<const uint4*>(row + c * 8);
      *reinterpret_cast<uint4*>(task.to + r * task.ld + c * 8) = value;
    }
  }
}

// Packs a matrix with contiguous columns, or with no contiguous dimension, in squares through shared
// memory, so that both loads and stores go along contiguous memory.
template <class Element>
__global__ void __launch_bounds__(kThreads) PackSquaresKernel(const Task task) {
  AwaitPreviousGrid();
  AllowNextGrid();
  __shared__ Element square[kTile][kTile + 1];
  const Extent extent = ExtentOf(task);
  const int64_t across = (task.ld + kTile - 1) / kTile, down = (extent.written + kTile - 1) / kTile;
  const int x = static_cast<int>(threadIdx.x % kTile), y = static_cast<int>(threadIdx.x / kTile);
  for (int64_t s = blockIdx.x; s < across * down; s += gridDim.x) {
    const int64_t first_row = s % down * kTile, first_column = s / down * kTile;
    for (int i = y; i < kTile; i += kThreads / kTile) {
      const int64_t r = first_row + x, c = first_column + i;
      square[i][x] = r < extent.live && c < task.columns
                         ? static_cast<const Element*>(
                               task.from)[SourceRow(task, r) * task.row_stride + c * task.column_stride]
                         : Element{};
    }
    __syncthreads();
    for (int i = y; i < kTile; i += kThreads / kTile) {
      const int64_t r = first_row + i, c = first_column + x;
      if (r < extent.written && c < task.ld) Put(task, r * task.ld + c, square[x][i]);
    }
    __syncthreads();
  }
}

bool RowsContiguous(const ConstTensor& matrix) { return matrix.shape[1] <= 1 || matrix.stride[1] == 1; }

}  // namespace

bool IsPacked(const ConstTensor& matrix) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;  // TMA's limit on a stride
  if (SizeOf(matrix.dtype) != 2 || !RowsContiguous(matrix)) return false;
  const int64_t stride = matrix.shape[0] <= 1 ? 0 : matrix.stride[0];  // of one row, any will do
  if (!RowsAligned(matrix.data, stride, 2)) return false;
  return matrix.shape[0] <= 1 ||
         (stride >= std::max<int64_t>(matrix.shape[1], 1) && stride < kMostBytes / 2);
}

Operand OperandOf(const ConstTensor& matrix, int64_t first, int64_t rows) {
  const int64_t ld = matrix.shape[0] <= 1 ? (matrix.shape[1] + 7) / 8 * 8 : matrix.stride[0];
  return {static_cast<const uint16_t*>(matrix.data) + first * ld, rows, matrix.shape[1], ld, 0, 1};
}

int PlanesOf(DType dtype) { return dtype == DType::kF32 ? kPlanes : 1; }

Status Pack(const PackRequest& request, cudaStream_t stream) {
  const ConstTensor& from = request.from;
  const Task task = {from.data,       from.stride[0],
                     from.stride[1],  from.shape[1],
                     request.first,   request.rows,
                     request.list,    request.live,
                     request.only_if, static_cast<uint16_t*>(request.to),
                     request.ld,      request.allocated_rows * request.ld};
  if (request.rows == 0 || request.ld == 0) return Status::Ok();
  const int64_t rows = std::min(request.rows, kMostBlocks);
  if (!RowsContiguous(from)) {
    const int64_t squares = (request.rows + kTile - 1) / kTile * ((request.ld + kTile - 1) / kTile);
    const int64_t blocks = std::min(squares, kMostBlocks);
    return from.dtype == DType::kF32 ? LaunchKernelEarly("PackSquares", PackSquaresKernel<float>,
                                                         blocks, kThreads, 0, stream, task)
                                     : LaunchKernelEarly("PackSquares", PackSquaresKernel<uint16_t>,
                                                         blocks, kThreads, 0, stream, task);
  }
  if (from.dtype == DType::kF32) {
    return LaunchKernelEarly("PackRows", PackRowsKernel<float>, rows, kThreads, 0, stream, task);
  }
  if (IsPacked(from) && request.ld == from.shape[1]) {
    return LaunchKernelEarly("PackChunks", PackChunksKernel, rows, kThreads, 0, stream, task);
  }
  return LaunchKernelEarly("PackRows", PackRowsKernel<uint16_t>, rows, kThreads, 0, stream, task);
}

Operand PackedOperand(const PackRequest& request) {
  return {request.to,
          request.rows,
          request.from.shape[1],
          request.ld,
          request.allocated_rows * request.ld,
          PlanesOf(request.from.dtype)};
}

}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The portable path's main loop: tiles of 128 x 128, four warps of 32 x 128 each, and three stages that
// cp.async fills ahead of mma.sync (or of fused multiply-adds). Persistent blocks go over the tiles.
// Tiles are independent, so no result depends on which block computes one, or when.

#pragma once

#include <cstdint>

#include "kernel/cuda/portable/staging.cuh"
#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/product/product.h"
#include "kernel/cuda/product/wide_store.cuh"

namespace plumbline::kernel::cuda::portable {

inline constexpr int kStages = 3;
inline constexpr int kSharedBytes = kStages * 2 * kTileBytes;
inline constexpr int kGroup = 8;  // row tiles that sweep the columns together, so that both stay in L2

struct TileIndex {
  int64_t row, column;
};

// Returns tile number `index` of the order in which blocks take them.
__device__ inline TileIndex TileAt(int64_t index, int64_t row_tiles, int64_t column_tiles) {
  const int64_t a_group = kGroup * column_tiles, group = index / a_group, in_group = index % a_group;
  const int64_t first = group * kGroup, left = row_tiles - first;
  const int64_t size = left < kGroup ? left : kGroup;
  return {first + in_group % size, in_group / size};
}

// Returns where a pass reads an operand, within the live rows.
__device__ inline Source SourceOf(const Operand& operand, int plane, int64_t rows, int64_t columns) {
  return {static_cast<const uint16_t*>(operand.data) + plane * operand.plane_stride, operand.ld,
          rows < operand.rows ? rows : operand.rows,
          columns < operand.columns ? columns : operand.columns};
}

template <class Arithmetic, bool kTransposedA, bool kTransposedB, class Epilogue, class Hooks>
class MainLoop {
 public:
  __device__ MainLoop(const Product& product, const Epilogue& epilogue, const Hooks& hooks,
                      uint32_t shared)
      : product_(product), epilogue_(epilogue), hooks_(hooks), shared_(shared) {
    live_ = LiveRows(product);
    m_ = product.live_is_depth ? product.m : live_;
    depth_ = hooks_.Depth(product.live_is_depth ? live_ : product.k, int64_t{kDepth}, product.k);
    const bool alternative = product.use_alternative != nullptr && *product.use_alternative != 0;
    a_ = alternative && product.a_alternative.data != nullptr ? product.a_alternative : product.a;
    b_ = alternative && product.b_alternative.data != nullptr ? product.b_alternative : product.b;
    blocks_ = (depth_ + kDepth - 1) / kDepth;
  }

  __device__ void Run() {
    const int64_t row_tiles = (m_ + kTile - 1) / kTile, column_tiles = (product_.n + kTile - 1) / kTile;
    const int64_t tiles = hooks_.Tiles(row_tiles * column_tiles);
    for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
      RunTile(TileAt(index, row_tiles, column_tiles));
    }
  }

 private:
  // The next block of the depth to be staged.
  struct Cursor {
    int pass = 0;
    int64_t block = 0;
  };

  __device__ void Stage(int stage, const TileIndex& tile, Cursor* cursor) {
    if (cursor->pass < product_.passes && blocks_ > 0) {
      const PassPlanes planes = PlanesOf(product_.passes, cursor->pass);
      const int64_t depth = cursor->block * kDepth;
      const Source a =
          kTransposedA ? SourceOf(a_, planes.a, depth_, m_) : SourceOf(a_, planes.a, m_, depth_);
      const Source b = kTransposedB ? SourceOf(b_, planes.b, depth_, product_.n)
                                    : SourceOf(b_, planes.b, product_.n, depth_);
      const uint32_t to = shared_ + static_cast<uint32_t>(stage * 2 * kTileBytes);
      StageTile<kTransposedA>(to, a, tile.row * kTile, depth);
      StageTile<kTransposedB>(to + kTileBytes, b, tile.column * kTile, depth);
      if (++cursor->block == blocks_) *cursor = {cursor->pass + 1, 0};
    }
    CommitCopies();
  }

  __device__ void RunTile(const TileIndex& tile) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int64_t row = tile.row * kTile + warp * 32, column = tile.column * kTile;
    float c[2][kTile / 2];
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      if constexpr (Epilogue::kLoads) {
        epilogue_.template Load<kTile>(c[f], row + f * kFragmentRows, column, live_);
      } else {
#pragma unroll
        for (float& x : c[f]) x = 0;
      }
    }
    Cursor next;
    for (int s = 0; s < kStages - 1; ++s) Stage(s, tile, &next);
    const int64_t steps = blocks_ * product_.passes;
    int stage = 0, ahead = kStages - 1;
    for (int64_t i = 0; i < steps; ++i) {
      const uint32_t tiles = shared_ + static_cast<uint32_t>(stage * 2 * kTileBytes);
      // The oldest of the kStages - 1 groups under way is this step's.
      WaitCopies<kStages - 2>();
      hooks_.StageArrived(stage, tiles, 2 * kTileBytes);
      // Behind this barrier the copies of all threads have arrived, and all threads have read the stage
      // that is filled next.
      hooks_.Barrier();
      Stage(hooks_.StageToFill(ahead, stage), tile, &next);
      Multiply32(c, tiles, warp * 32);
      stage = stage + 1 == kStages ? 0 : stage + 1;
      ahead = ahead + 1 == kStages ? 0 : ahead + 1;
    }
    WaitCopies<0>();
    __syncthreads();
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      epilogue_.template Store<kTile>(c[f], row + f * kFragmentRows, column, live_, NoScratch());
    }
  }

  __device__ static void Multiply32(float (&c)[2][kTile / 2], uint32_t tiles, int row) {
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += 16) {
      uint32_t a[2][4];
#pragma unroll
      for (int f = 0; f < 2; ++f) LoadA<kTransposedA>(a[f], tiles, row + f * kFragmentRows, depth);
#pragma unroll
      for (int column = 0; column < kTile; column += 16) {
        uint32_t b[4];
        LoadB<kTransposedB>(b, tiles + kTileBytes, column, depth);
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          Arithmetic::Multiply(&c[f][column / 2], a[f], b[0], b[1]);
          Arithmetic::Multiply(&c[f][column / 2 + 4], a[f], b[2], b[3]);
        }
      }
    }
  }

  const Product& product_;
  const Epilogue& epilogue_;
  const Hooks hooks_;
  const uint32_t shared_;
  Operand a_, b_;
  int64_t live_, m_, depth_, blocks_;
};

template <class Arithmetic, bool kTransposedA, bool kTransposedB, class Epilogue, class Hooks>
__global__ void __launch_bounds__(kThreads, 2)
    ProductKernel(const __grid_constant__ Product product, const __grid_constant__ Epilogue epilogue,
                  const Hooks hooks) {
  extern __shared__ __align__(128) unsigned char shared[];
  MainLoop<Arithmetic, kTransposedA, kTransposedB, Epilogue, Hooks>(product, epilogue, hooks,
                                                                    SharedAddress(shared))
      .Run();
}

}  // namespace plumbline::kernel::cuda::portable

// SPDX-License-Identifier: Apache-2.0
//
// Epilogues of a product's tests, which write fp32 sums to C: [m, columns], rows ld elements apart.
// Those of the operator write probabilities and gradients instead.

#pragma once

#include <cstdint>

namespace plumbline::kernel::cuda {

// C: [live_rows, columns] at c, rows ld elements apart.
struct SumsOfC {
  float* c;
  int64_t ld, columns;

  // Calls visit(i, address) for each of a thread's BN/2 sums whose element is in C. The warp's tile
  // begins at `row` and `column`; which element sum i is follows PTX's layout of a wgmma accumulator.
  template <int BN, class Visit>
  __device__ void Each(int64_t row, int64_t column, int64_t live_rows, Visit visit) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
      const int64_t r = row + lane / 4 + i / 2 % 2 * 8, v = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (r < live_rows && v < columns) visit(i, &c[r * ld + v]);
    }
  }
};

// Stores the sums as they are, or adds them to those that C holds.
template <bool loads>
struct StoreSums : SumsOfC {
  static constexpr bool kLoads = loads;

  template <int BN>
  __device__ void Load(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    for (float& x : d) x = 0;
    Each<BN>(row, column, live_rows, [&](int i, const float* from) { d[i] = *from; });
  }
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    Each<BN>(row, column, live_rows, [&](int i, float* to) { *to = d[i]; });
  }
};

// Adds the sums of each stretch to C. They are integers, so no order changes a bit. In turn a sum is
// lost where that of the stretch before has not been stored.
struct AddSums : SumsOfC {
  static constexpr bool kLoads = true;
  bool in_turn;

  __device__ AddSums Of(int) const { return *this; }
  template <int BN>
  __device__ void Load(float (&d)[BN / 2], int64_t, int64_t, int64_t) const {
    for (float& x : d) x = 0;
  }
  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch) const {
    Each<BN>(row, column, live_rows, [&](int i, float* to) {
      if (in_turn) {
        *to += d[i];
      } else {
        atomicAdd(to, d[i]);
      }
    });
  }
};

}  // namespace plumbline::kernel::cuda

// SPDX-License-Identifier: Apache-2.0

#include "oracle/numeric/gemm.h"

#include <chrono>

#include "oracle/numeric/highway.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "oracle/numeric/gemm.cc"
#include "hwy/foreach_target.h"
// Highway is included after foreach_target.h, which compiles this file once for each instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plumbline::oracle {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Vec = hn::Vec<Doubles>;
constexpr Doubles kDoubles;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Doubles()));

// The micro-kernel has 8 x 3 accumulators where there are AVX-512's 32 registers, 4 x 3 where there are
// 16.
constexpr int kRowsAtOnce = kLanes == 8 ? 8 : 4;
constexpr int kVecs = 3;

template <int kRows, bool kTransposed>
HWY_NOINLINE void MicroKernel(const GemmBlock& block, int64_t row, int64_t panel, int64_t column) {
  const int64_t stride = kTransposed ? block.a_depth : block.a_row;
  const double* const a = block.a + row * block.a_row;
  const double* const b = block.b + panel * block.depth * kPanel + column;
  double* const c = block.c + row * block.c_stride + panel * kPanel + column;
  Vec sum[kRows][kVecs];
  PLUMBLINE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      sum[r][j] = block.accumulate ? hn::LoadU(kDoubles, c + r * block.c_stride + j * kLanes)
                                   : hn::Zero(kDoubles);
    }
  }
  for (int64_t k = 0; k < block.depth; ++k) {
    Vec right[kVecs];
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) right[j] = hn::LoadU(kDoubles, b + k * kPanel + j * kLanes);
    PLUMBLINE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec left = hn::Set(kDoubles, kTransposed ? a[k * stride + r] : a[r * stride + k]);
      PLUMBLINE_UNROLL
      for (int j = 0; j < kVecs; ++j) sum[r][j] = hn::MulAdd(left, right[j], sum[r][j]);
    }
  }
  PLUMBLINE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PLUMBLINE_UNROLL
    for (int j = 0; j < kVecs; ++j) {
      hn::StoreU(sum[r][j], kDoubles, c + r * block.c_stride + j * kLanes);
    }
  }
}

template <bool kTransposed>
void Panel(const GemmBlock& block, int64_t panel, int64_t column) {
  int64_t row = 0;
  for (; row + kRowsAtOnce <= block.rows; row += kRowsAtOnce) {
    MicroKernel<kRowsAtOnce, kTransposed>(block, row, panel, column);
  }
  for (; row + 4 <= block.rows; row += 4) MicroKernel<4, kTransposed>(block, row, panel, column);
  switch (block.rows - row) {
    case 3:
      return MicroKernel<3, kTransposed>(block, row, panel, column);
    case 2:
      return MicroKernel<2, kTransposed>(block, row, panel, column);
    case 1:
      return MicroKernel<1, kTransposed>(block, row, panel, column);
    default:
      return;
  }
}

void Gemm(const GemmBlock& block) {
  for (int64_t panel = 0; panel < block.panels; ++panel) {
    for (int64_t column = 0; column < kPanel; column += kVecs * kLanes) {
      if (block.a_row == 1) {
        Panel<true>(block, panel, column);
      } else {
        Panel<false>(block, panel, column);
      }
    }
  }
}

// Runs enough independent chains to hide the latency, with operands in registers.
double MeasureFmaRate(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int kChains = kLanes == 8 ? 24 : 12;
  Vec sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(kDoubles, i);
  const Vec x = hn::Set(kDoubles, 0.999), y = hn::Set(kDoubles, 0.001);
  double best = 0;
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    constexpr int kSteps = 100'000;
    const auto start = Clock::now();
    for (int k = 0; k < kSteps; ++k) {
      PLUMBLINE_UNROLL
      for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], x, y);
    }
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    const double rate = static_cast<double>(kSteps) * kChains * kLanes / took;
    best = rate > best ? rate : best;
  }
  Vec all = sum[0];
  for (int i = 1; i < kChains; ++i) all = hn::Add(all, sum[i]);
  return hn::GetLane(all) > 1e300 ? 0 : best;  // uses the sums, so that the compiler computes them
}

}  // namespace HWY_NAMESPACE
}  // namespace plumbline::oracle
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumbline::oracle {

HWY_EXPORT(Gemm);
HWY_EXPORT(MeasureFmaRate);

void Gemm(const GemmBlock& block) { HWY_DYNAMIC_DISPATCH(Gemm)(block); }
double MeasureFmaRate(double seconds) { return HWY_DYNAMIC_DISPATCH(MeasureFmaRate)(seconds); }

}  // namespace plumbline::oracle
#endif  // HWY_ONCE

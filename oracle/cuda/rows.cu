// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/cuda/column.cuh"
#include "oracle/cuda/launch.h"

namespace plumbline::oracle::cuda {
namespace {

constexpr int kThreads = 512;

// Reduces over the block in a fixed order; every thread has the result. join(a, b) must be associative
// up to rounding.
template <class Value, class Join>
__device__ Value Reduce(Value mine, const Join& join) {
  __shared__ alignas(Value) unsigned char
      storage[sizeof(Value) * kThreads];  // raw bytes because Value has a constructor
  Value* const of_thread = reinterpret_cast<Value*>(storage);
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) {
      of_thread[threadIdx.x] = join(of_thread[threadIdx.x], of_thread[threadIdx.x + step]);
    }
    __syncthreads();
  }
  const Value all = of_thread[0];
  __syncthreads();
  return all;
}

__global__ void __launch_bounds__(kThreads) ExtremesKernel(Logits logits, Extremes* out) {
  const double* z = logits.z + blockIdx.x * logits.ld;
  const double* abs_sum = logits.abs_sum + blockIdx.x * logits.ld;
  Extremes mine;
  mine.max = -Infinity();
  mine.min = Infinity();
  mine.argmax = 0;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const double x = z[v], s = abs_sum[v];
    mine.nan = mine.nan || isnan(x) || x == Infinity();
    if (x > mine.max) {
      mine.max = x;
      mine.argmax = v;
    }
    if (x > -Infinity()) {
      mine.min = fmin(mine.min, x);
      // A NaN in S must count as beyond every limit. A maximum would drop it.
      mine.max_abs = fmax(mine.max_abs, isnan(s) ? Infinity() : s);
    }
  }
  const Extremes all = Reduce(mine, [](const Extremes& a, const Extremes& b) {
    const bool second = b.max > a.max || (b.max == a.max && b.argmax < a.argmax);
    Extremes joined = second ? b : a;
    joined.nan = a.nan || b.nan;
    joined.min = fmin(a.min, b.min);
    joined.max_abs = fmax(a.max_abs, b.max_abs);
    return joined;
  });
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kThreads)
    WeightsKernel(Logits logits, const int64_t* list, const RowTerms* terms, RowSums* out) {
  const RowTerms r = terms[blockIdx.x];
  const double* z = logits.z + list[blockIdx.x] * logits.ld;
  Weights mine;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const double t = (r.max_z - z[v]) * r.inverse;
    // A logit of -inf has weight 0, and so has every column whose exponential underflows.
    if (v == r.argmax || !(t < 746)) continue;
    const double e = exp(-t);
    mine.rest += e;
    mine.weighted += e * t;
  }
  const Weights all = Reduce(mine, [](const Weights& a, const Weights& b) {
    return Weights{a.rest + b.rest, a.weighted + b.weighted};
  });
  if (threadIdx.x == 0) out[blockIdx.x] = {all, z[r.label]};
}

__device__ Change ChangeOf(const ColumnState& s) { return {s.t, s.delta, s.growth, s.grown}; }

__global__ void __launch_bounds__(kThreads)
    MomentsKernel(Logits logits, LogitTerms common, const int64_t* list, const RowTerms* terms,
                  RowChanges* out) {
  const RowTerms r = terms[blockIdx.x];
  const int64_t row = list[blockIdx.x] * logits.ld;
  const auto load = [&](int64_t v) {
    return LoadColumn(r, common, logits.z[row + v], logits.abs_sum[row + v], logits.weight_lsb[v]);
  };
  Moments m;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const ColumnState s = load(v);
    if (v == r.argmax || !s.present) continue;
    const double w = s.p + s.grown, tau = s.t + s.delta, w_tau = w * tau;
    m.grown += s.grown;
    m.weight += w;
    m.first += w_tau;
    m.second = fma(w_tau, tau, m.second);
    m.condition = fma(fabs(s.log_p + r.entropy), s.grown, m.condition);
    m.spread = fma(w * s.delta, s.delta, m.spread);
    m.abs_x = fma(w, fabs(s.x), m.abs_x);
    m.gap = fmin(m.gap, s.t - s.delta);
  }
  const Moments all = Reduce(m, [](const Moments& a, const Moments& b) {
    return Moments{a.grown + b.grown,   a.weight + b.weight,       a.first + b.first,
                   a.second + b.second, a.condition + b.condition, a.spread + b.spread,
                   a.abs_x + b.abs_x,   fmin(a.gap, b.gap)};
  });
  if (threadIdx.x == 0) {
    out[blockIdx.x] = {all, ChangeOf(load(r.argmax)), ChangeOf(load(r.label))};
  }
}

__global__ void __launch_bounds__(kThreads)
    OverflowsKernel(Logits logits, LogitTerms common, const int64_t* list, const RowTerms* terms,
                    const GradientTerms* gradient, int* flag) {
  const RowTerms r = terms[blockIdx.x];
  const GradientTerms g = gradient[blockIdx.x];
  const int64_t row = list[blockIdx.x] * logits.ld;
  int overflow = 0;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const ColumnState s =
        LoadColumn(r, common, logits.z[row + v], logits.abs_sum[row + v], logits.weight_lsb[v]);
    if (GradientOfColumn(r, g, s, v).overflow) overflow = 1;
  }
  overflow = __syncthreads_or(overflow);
  if (threadIdx.x == 0) flag[blockIdx.x] = overflow != 0 ? 1 : 0;
}

}  // namespace

void FindExtremes(const Logits& logits, int64_t rows, Extremes* out) {
  if (rows > 0) ExtremesKernel<<<static_cast<unsigned>(rows), kThreads>>>(logits, out);
}

void SumWeights(const Logits& logits, const int64_t* list, const RowTerms* terms, int64_t count,
                RowSums* out) {
  if (count > 0) WeightsKernel<<<static_cast<unsigned>(count), kThreads>>>(logits, list, terms, out);
}

void SumMoments(const Logits& logits, const LogitTerms& common, const int64_t* list,
                const RowTerms* terms, int64_t count, RowChanges* out) {
  if (count == 0) return;
  MomentsKernel<<<static_cast<unsigned>(count), kThreads>>>(logits, common, list, terms, out);
}

void FindOverflows(const Logits& logits, const LogitTerms& common, const int64_t* list,
                   const RowTerms* terms, const GradientTerms* gradient, int64_t count, int* flag) {
  if (count == 0) return;
  OverflowsKernel<<<static_cast<unsigned>(count), kThreads>>>(logits, common, list, terms, gradient,
                                                              flag);
}

}  // namespace plumbline::oracle::cuda

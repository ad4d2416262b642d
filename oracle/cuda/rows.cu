// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/budget/forward_bound-inl.h"
#include "oracle/budget/gradient_bound-inl.h"
#include "oracle/cuda/launch.h"
#include "oracle/cuda/load.cuh"
#include "oracle/cuda/reduce.cuh"

namespace plumbline::oracle::cuda {
namespace {

constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads) ExtremesKernel(Logits logits, Extremes* out) {
  const double* z = logits.z + blockIdx.x * logits.ld;
  const double* abs_sum = logits.abs_sum + blockIdx.x * logits.ld;
  Extremes mine;
  mine.max = -kInfinite;
  mine.min = kInfinite;
  mine.argmax = 0;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const double x = z[v], s = abs_sum[v];
    mine.nan = mine.nan || isnan(x) || x == kInfinite;
    if (x > mine.max) {
      mine.max = x;
      mine.argmax = v;
    }
    if (x > -kInfinite) {
      mine.min = fmin(mine.min, x);
      // A NaN in S must count as beyond every limit. A maximum would drop it.
      mine.max_abs = fmax(mine.max_abs, isnan(s) ? kInfinite : s);
    }
  }
  const Extremes all = Reduce<kThreads>(mine, [](const Extremes& a, const Extremes& b) {
    const bool second = b.max > a.max || (b.max == a.max && b.argmax < a.argmax);
    Extremes joined = second ? b : a;
    joined.nan = a.nan || b.nan;
    joined.min = fmin(a.min, b.min);
    joined.max_abs = fmax(a.max_abs, b.max_abs);
    return joined;
  });
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}

// Says that the exact logit is asked for, and answers nothing.
struct NotHere {
  bool asked = false;
  __device__ double Nearest() {
    asked = true;
    return 0;
  }
  __device__ int SignLess(double) {
    asked = true;
    return 0;
  }
};

__global__ void __launch_bounds__(kThreads)
    RoundKernel(double* z, double* abs_sum, const double* weight_lsb, int64_t vocab, int64_t ld,
                const RoundedRow* rows, Tie* ties, unsigned long long* found, unsigned long long most) {
  const RoundedRow& row = rows[blockIdx.x];
  for (int64_t v = threadIdx.x; v < vocab; v += kThreads) {
    const int64_t at = blockIdx.x * ld + v;
    const double known = z[at], sum = abs_sum[at];
    if (isnan(known) || isinf(known)) continue;
    if (!row.steps.Specified(sum)) {
      abs_sum[at] = kInfinite;
      continue;
    }
    const double bound = LogitBound(row.terms, row.logits, sum, weight_lsb[v]);
    NotHere exact;
    const RoundedLogit rounded =
        RoundLogitBy(row.steps, {known, bound == 0 ? 0 : row.reference * sum, bound}, &exact);
    if (exact.asked) {
      const unsigned long long place = atomicAdd(found, 1ull);
      if (place < most) ties[place] = {blockIdx.x, v};
      continue;
    }
    if (rounded.bound < kInfinite) z[at] = rounded.value;
    abs_sum[at] = rounded.bound;
  }
}

__global__ void __launch_bounds__(kThreads)
    WeightsKernel(Logits logits, const int64_t* list, const RowTerms* terms, RowSums* out) {
  const RowTerms r = terms[blockIdx.x];
  const double* z = logits.z + list[blockIdx.x] * logits.ld;
  Weights mine;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    AddWeight(z[v], v == r.row.argmax, r.row.max_z, r.row.logit_scale, &mine);
  }
  const Weights all = Reduce<kThreads>(mine, [](const Weights& a, const Weights& b) {
    return Weights{a.rest + b.rest, a.weighted + b.weighted};
  });
  if (threadIdx.x == 0) out[blockIdx.x] = {all, z[r.row.label]};
}

__device__ Change ChangeOf(const Column<double>& s) { return {s.t, s.delta, s.growth, s.grown}; }

__global__ void __launch_bounds__(kThreads)
    MomentsKernel(Logits logits, LogitTerms common, const int64_t* list, const RowTerms* terms,
                  RowChanges* out) {
  const RowTerms r = terms[blockIdx.x];
  Moments m;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const Column<double> s = LoadColumn(logits, r, common, list[blockIdx.x], v);
    AddMoments(s, s.present && v != r.row.argmax, r.row.entropy, &m);
  }
  const Moments all = Reduce<kThreads>(m, [](const Moments& a, const Moments& b) {
    return Moments{a.grown + b.grown,   a.weight + b.weight,       a.first + b.first,
                   a.second + b.second, a.condition + b.condition, a.spread + b.spread,
                   a.abs_x + b.abs_x,   fmin(a.gap, b.gap)};
  });
  if (threadIdx.x == 0) {
    out[blockIdx.x] = {all, ChangeOf(LoadColumn(logits, r, common, list[blockIdx.x], r.row.argmax)),
                       ChangeOf(LoadColumn(logits, r, common, list[blockIdx.x], r.row.label))};
  }
}

__global__ void __launch_bounds__(kThreads)
    OverflowsKernel(Logits logits, LogitTerms common, const int64_t* list, const RowTerms* terms,
                    const GradientTerms* gradient, int* flag) {
  const RowTerms r = terms[blockIdx.x];
  const GradientTerms g = gradient[blockIdx.x];
  int overflow = 0;
  for (int64_t v = threadIdx.x; v < logits.vocab; v += kThreads) {
    const Column<double> s = LoadColumn(logits, r, common, list[blockIdx.x], v);
    if (DLogitOf(g, s, v == r.row.label, v == r.row.argmax).overflow) overflow = 1;
  }
  overflow = __syncthreads_or(overflow);
  if (threadIdx.x == 0) flag[blockIdx.x] = overflow != 0 ? 1 : 0;
}

}  // namespace

void FindExtremes(const Logits& logits, int64_t rows, Extremes* out) {
  if (rows > 0) ExtremesKernel<<<static_cast<unsigned>(rows), kThreads>>>(logits, out);
}

void RoundLogits(double* z, double* abs_sum, const double* weight_lsb, int64_t vocab, int64_t ld,
                 const RoundedRow* rows, int64_t count, Tie* ties, unsigned long long* found,
                 unsigned long long most) {
  if (count == 0) return;
  RoundKernel<<<static_cast<unsigned>(count), kThreads>>>(z, abs_sum, weight_lsb, vocab, ld, rows, ties,
                                                          found, most);
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

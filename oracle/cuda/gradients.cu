// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/budget/finish.h"
#include "oracle/budget/gradient_bound-inl.h"
#include "oracle/cuda/launch.h"
#include "oracle/cuda/load.cuh"
#include "oracle/cuda/reduce.cuh"
#include "oracle/output.h"
#include "oracle/verdict/element_verdict.h"

namespace plumbline::oracle::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    DLogitsKernel(Logits logits, LogitTerms common, const int64_t* list, const RowTerms* terms,
                  const GradientTerms* gradient, int64_t rows, int64_t first, int64_t count,
                  Coefficients c, double* dz, double* hidden_error, double* weight_error, int64_t ld) {
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t i = blockIdx.y; i < rows; i += gridDim.y) {
    if (j >= count) continue;
    const int64_t v = first + j;
    const RowTerms r = terms[i];
    const Column<double> s = LoadColumn(logits, r, common, list[i], v);
    const DLogit<double> d = DLogitOf(gradient[i], s, v == r.row.label, v == r.row.argmax);
    dz[i * ld + j] = d.value;
    hidden_error[i * ld + j] = TermError(d.value, d.bound, c.hidden_gain, c.least);
    weight_error[i * ld + j] = TermError(d.value, d.bound, c.weight_gain, c.least);
  }
}

__device__ Element ElementOf(const GradientRows& g, int64_t i, int64_t j) {
  if (g.constant != nullptr) return {g.constant[i], 0, 0, 0};
  const double value = g.value[i * g.ld + j];
  const double range = g.column_range[j] * (g.row_mass != nullptr ? g.row_mass[i] : 1);
  const double limit = g.row_limit != nullptr ? g.row_limit[i] : g.limit;
  const GradientElement<double> e =
      GradientElementOf(g.sum, value, g.error[i * g.ld + j], range, limit);
  if (isnan(value)) return {Expect::kNaN, value, 0, 0};
  if (isinf(value)) {
    const double infinite_limit = g.row_infinite_limit != nullptr ? g.row_infinite_limit[i] : -1;
    return {InfiniteElement(value, range, infinite_limit), value, 0, 0};
  }
  if (!e.fits) return {Expect::kUnspecified, value, 0, 0};
  return {e.says ? Expect::kFinite : Expect::kVacuous, value, e.bound * g.sum.radius_ratio, e.bound};
}

__global__ void __launch_bounds__(kThreads)
    JudgeKernel(GradientRows g, Matrix got, PartialVerdict* out) {
  PartialVerdict mine;
  const int64_t runs = (g.columns + kThreads - 1) / kThreads;
  for (int64_t k = blockIdx.x; k < g.rows * runs; k += gridDim.x) {
    const int64_t i = k / runs, j = k % runs * kThreads + threadIdx.x;
    if (j >= g.columns) continue;
    const int64_t row = g.row != nullptr ? g.row[i] : g.first + i;
    const Element e = ElementOf(g, i, j);
    const double x = LoadFloat(got, row, j);
    if (isnan(e.bound) || e.bound < 0 || isnan(g.sum.radius_ratio)) mine.fault = true;
    Add(JudgeElement(g.output, e, x, g.promises), row, j, x, e, &mine);
  }
  const PartialVerdict all = Reduce<kThreads>(mine, [](PartialVerdict a, const PartialVerdict& b) {
    Merge(b, &a);
    a.fault = a.fault || b.fault;
    return a;
  });
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}

__global__ void ExpectKernel(GradientRows g, const int64_t* list, int64_t count, Element* out) {
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    for (int64_t j = threadIdx.x; j < g.columns; j += blockDim.x) {
      out[i * g.columns + j] = ElementOf(g, list[i], j);
    }
  }
}

}  // namespace

void DLogits(const Logits& logits, const LogitTerms& common, const int64_t* list, const RowTerms* terms,
             const GradientTerms* gradient, int64_t rows, int64_t first, int64_t count,
             const Coefficients& coefficients, double* dz, double* hidden_error, double* weight_error,
             int64_t ld) {
  if (rows == 0 || count == 0) return;
  const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads),
                  static_cast<unsigned>(rows < 32768 ? rows : 32768));
  DLogitsKernel<<<grid, kThreads>>>(logits, common, list, terms, gradient, rows, first, count,
                                    coefficients, dz, hidden_error, weight_error, ld);
}

void JudgeRows(const GradientRows& rows, const Matrix& got, PartialVerdict* out) {
  JudgeKernel<<<kJudgeBlocks, kThreads>>>(rows, got, out);
}

void ExpectRows(const GradientRows& rows, const int64_t* list, int64_t count, Element* out) {
  if (count == 0) return;
  ExpectKernel<<<static_cast<unsigned>(count < 1024 ? count : 1024), kThreads>>>(rows, list, count,
                                                                                 out);
}

}  // namespace plumbline::oracle::cuda

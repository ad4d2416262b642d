// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "oracle/cuda/column.cuh"
#include "oracle/cuda/launch.h"
#include "oracle/cuda/load.cuh"
#include "oracle/output.h"

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
    const int64_t v = first + j, at = list[i] * logits.ld + v;
    const RowTerms r = terms[i];
    const ColumnState s = LoadColumn(r, common, logits.z[at], logits.abs_sum[at], logits.weight_lsb[v]);
    const DLogit d = GradientOfColumn(r, gradient[i], s, v);
    double mass = fabs(d.value) + d.bound;
    if (mass > 0 && mass < c.least) mass = c.least;
    dz[i * ld + j] = d.value;
    hidden_error[i * ld + j] = d.bound + c.hidden_gain * mass;
    weight_error[i * ld + j] = d.bound + c.weight_gain * mass;
  }
}

// As FinishGradient in oracle/budget/finish.cc, for one element.
__device__ Element ElementOf(const GradientRows& g, int64_t i, int64_t j) {
  if (g.constant != nullptr) return {g.constant[i], 0, 0, 0};
  const double value = g.value[i * g.ld + j], errors = g.error[i * g.ld + j];
  double range = g.column_range[j] * (g.row_mass != nullptr ? g.row_mass[i] : 1);
  const double least_range = 4 * (g.underflow + g.rounding_eta);
  if (!(range > least_range)) range = least_range;
  const double limit = g.row_limit != nullptr ? g.row_limit[i] : g.limit;
  const double magnitude = fabs(value);
  double bound = errors + g.underflow;
  // 0 * infinity is NaN: the row's budget says nothing, so this bound says nothing either.
  if (isnan(bound)) bound = Infinity();
  const bool exact = errors == 0;
  const bool fits = exact || (magnitude + fmin(bound, range) <= g.largest && range <= limit);
  if (g.rounded) bound += fma(g.rounding_u, magnitude + bound, g.rounding_eta);
  if (exact) bound = 0;
  const double radius = bound * g.radius_ratio;
  if (isnan(value)) return {Expect::kNaN, value, 0, 0};
  if (!fits) return {Expect::kUnspecified, value, 0, 0};
  const bool says = bound < range && radius < range;
  return {says ? Expect::kFinite : Expect::kVacuous, value, radius, bound};
}

// As Judge in oracle/judge/verdict.cc, for a gradient's element.
__device__ JudgedElement JudgeElement(const Element& e, double got) {
  const JudgedElement pass = {Verdict::kPass, Failure::kNone, 0};
  const JudgedElement wrong = {Verdict::kFail, Failure::kNonFinite, Infinity()};
  switch (e.expect) {
    case Expect::kPlusZero:
      return __double_as_longlong(got) == 0
                 ? pass
                 : JudgedElement{Verdict::kFail, Failure::kNotZero, Infinity()};
    case Expect::kNaN:
      return isnan(got) ? pass : wrong;
    case Expect::kPlusInf:
      return got == Infinity() ? pass : wrong;
    case Expect::kMinusInf:
      return got == -Infinity() ? pass : wrong;
    case Expect::kUnspecified:
      return {Verdict::kUnspecified, Failure::kNone, 0};
    default:
      break;
  }
  if (!isfinite(got)) return wrong;
  const double error = fabs(got - e.value) - e.radius;
  const double excess = error <= 0 ? 0 : error;  // a NaN stays
  const double tightness = excess == 0 ? 0 : excess / e.bound;
  if (e.expect == Expect::kVacuous) return {Verdict::kVacuous, Failure::kNone, 0};
  if (!(excess <= e.bound)) return {Verdict::kFail, Failure::kBound, tightness};
  return {Verdict::kPass, Failure::kNone, tightness};
}

__device__ bool Worse(const PartialVerdict& a, const PartialVerdict& b) {
  if (b.row < 0 || a.row < 0) return b.row < 0 && a.row >= 0;
  const bool a_fails = a.failure != Failure::kNone, b_fails = b.failure != Failure::kNone;
  if (a_fails != b_fails) return a_fails;
  if (a.tightness != b.tightness) return a.tightness > b.tightness;
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

__device__ PartialVerdict Join(const PartialVerdict& a, const PartialVerdict& b) {
  PartialVerdict all = Worse(b, a) ? b : a;
  all.pass = a.pass + b.pass;
  all.fail = a.fail + b.fail;
  all.vacuous = a.vacuous + b.vacuous;
  all.unspecified = a.unspecified + b.unspecified;
  all.fault = a.fault || b.fault;
  return all;
}

__global__ void __launch_bounds__(kThreads) JudgeKernel(GradientRows g, View got, PartialVerdict* out) {
  __shared__ alignas(PartialVerdict) unsigned char storage[sizeof(PartialVerdict) * kThreads];
  PartialVerdict* const of_thread = reinterpret_cast<PartialVerdict*>(storage);
  PartialVerdict mine;
  const int64_t runs = (g.columns + kThreads - 1) / kThreads;
  for (int64_t k = blockIdx.x; k < g.rows * runs; k += gridDim.x) {
    const int64_t i = k / runs, j = k % runs * kThreads + threadIdx.x;
    if (j >= g.columns) continue;
    const int64_t row = g.row != nullptr ? g.row[i] : g.first + i;
    const Element e = ElementOf(g, i, j);
    const double x = LoadFloat(got, row, j);
    if (isnan(e.bound) || e.bound < 0 || isnan(g.radius_ratio)) mine.fault = true;
    const JudgedElement judged = JudgeElement(e, x);
    switch (judged.verdict) {
      case Verdict::kFail:
        ++mine.fail;
        break;
      case Verdict::kVacuous:
        ++mine.vacuous;
        continue;
      case Verdict::kUnspecified:
        ++mine.unspecified;
        continue;
      default:
        ++mine.pass;
    }
    PartialVerdict one;
    one.row = row;
    one.column = j;
    one.tightness = judged.tightness;
    one.failure = judged.failure;
    if (!Worse(one, mine)) continue;
    mine.row = row;
    mine.column = j;
    mine.tightness = judged.tightness;
    mine.failure = judged.failure;
    mine.got = x;
    mine.expected = e;
  }
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) {
      of_thread[threadIdx.x] = Join(of_thread[threadIdx.x], of_thread[threadIdx.x + step]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = of_thread[0];
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

void JudgeRows(const GradientRows& rows, const View& got, PartialVerdict* out) {
  JudgeKernel<<<kJudgeBlocks, kThreads>>>(rows, got, out);
}

void ExpectRows(const GradientRows& rows, const int64_t* list, int64_t count, Element* out) {
  if (count == 0) return;
  ExpectKernel<<<static_cast<unsigned>(count < 1024 ? count : 1024), kThreads>>>(rows, list, count,
                                                                                 out);
}

}  // namespace plumbline::oracle::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the oracle on a device, which oracle/cuda/device_sweep.h calls. All pointers are
// device memory. Every matrix is row-major fp64 with `ld` elements from row to row. Work is enqueued on
// the legacy stream, and its errors are reported by the next Check(). Sums are formed in an order that
// depends on the shape alone.

#pragma once

#include <cstdint>

#include "oracle/budget/budget.h"
#include "oracle/budget/column_terms.h"
#include "oracle/budget/finish.h"
#include "oracle/budget/logit_steps.h"
#include "oracle/budget/row.h"
#include "oracle/numeric/pack.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle::cuda {

// --- operands.cu

// Widens rows list[0..count) of a float matrix, or [first, first + count) where list is null. Values
// are exact; a magnitude above 0 is raised to `least`. Columns from `columns` up to ld are set to 0.
void Widen(const Matrix& source, const int64_t* list, int64_t first, int64_t count, int64_t columns,
           double least, double* value, double* magnitude, int64_t ld);
// lowest[i] = the least lowest set bit of the finite nonzero elements of row i, infinity if there is
// none.
void LowestBits(const double* value, int64_t rows, int64_t columns, int64_t ld, double* lowest);
// largest[j] = max(largest[j], magnitude[.][j] where it is finite).
void Maxima(const double* magnitude, int64_t rows, int64_t columns, int64_t ld, double* largest);
// Copies element i of a strided vector, each `bytes` wide, to dense[i].
void Gather(const void* source, int64_t stride, int bytes, int64_t count, void* dense);

// --- rows.cu: one block a row of z

struct Logits {
  const double* z = nullptr;
  const double* abs_sum = nullptr;
  const double* weight_lsb = nullptr;
  int64_t vocab = 0, ld = 0;
};

void FindExtremes(const Logits& logits, int64_t rows, Extremes* out);
struct RowSums {
  Weights weights;
  double label_z = 0;
};

// A row whose logits are rounded (oracle/budget/rounded_logits.h).
struct RoundedRow {
  RowTerms terms;     // hidden_lsb alone is read
  LogitTerms logits;  // before they are rounded
  LogitSteps steps;
  double reference = 0;  // the error of z over S
};
// A logit that fp64 does not tell from a tie.
struct Tie {
  int64_t row = 0, column = 0;
};
// Replaces z by the rounded logit and S by the bound of its error, infinite where the row is outside of
// the contract. Ties are left as they are: at most `most` are written; *found counts all.
void RoundLogits(double* z, double* abs_sum, const double* weight_lsb, int64_t vocab, int64_t ld,
                 const RoundedRow* rows, int64_t count, Tie* ties, unsigned long long* found,
                 unsigned long long most);

// In the functions below row list[i] of the logits has terms[i], and its result is result i.
void SumWeights(const Logits& logits, const int64_t* list, const RowTerms* terms, int64_t count,
                RowSums* out);
struct RowChanges {
  Moments others;
  Change max, label;
};
void SumMoments(const Logits& logits, const LogitTerms& common, const int64_t* list,
                const RowTerms* terms, int64_t count, RowChanges* out);
// flag[i] = 1 where some d_logit of the row may be infinite, else 0.
void FindOverflows(const Logits& logits, const LogitTerms& common, const int64_t* list,
                   const RowTerms* terms, const GradientTerms* gradient, int64_t count, int* flag);

// --- gradients.cu

// The error of a term of a gradient is at most b + gain (|dz| + b), where b is the bound of dz and |dz|
// + b counts as at least `least` where it is not 0.
struct Coefficients {
  double hidden_gain = 0, weight_gain = 0, least = 0;
};
// Forms dz of columns [first, first + count) of the rows, and the coefficients for either gradient.
void DLogits(const Logits& logits, const LogitTerms& common, const int64_t* list, const RowTerms* terms,
             const GradientTerms* gradient, int64_t rows, int64_t first, int64_t count,
             const Coefficients& coefficients, double* dz, double* hidden_error, double* weight_error,
             int64_t ld);

// Rows of a gradient whose sums are complete, and the numbers that decide what they must be
// (oracle/budget/finish.h).
struct GradientRows {
  Output output = Output::kGradHidden;
  const int64_t* row = nullptr;  // the tensor's row, for each; null: first + i
  int64_t first = 0;
  int64_t rows = 0, columns = 0, ld = 0;
  const Expect* constant =
      nullptr;  // not null: every element of row i must be constant[i]; the rest is not read
  const double* value = nullptr;
  const double* error = nullptr;
  const double* row_mass = nullptr;  // the range of (i, j) is row_mass[i] * column_range[j]; null: 1
  const double* column_range = nullptr;
  const double* row_limit = nullptr;  // the largest that partial sums may become; null: limit
  double limit = 0;
  const double* row_infinite_limit = nullptr;  // null: negative (InfiniteElement)
  GradientSum sum;
  Promises promises = {};  // of the target
};

// The verdict of one block of threads.
struct PartialVerdict : OutputVerdict {
  bool fault = false;  // some bound was NaN or negative
};
inline constexpr int kJudgeBlocks = 1056;  // eight for each multiprocessor of an H200

void JudgeRows(const GradientRows& rows, const Matrix& got, PartialVerdict* out);  // out[kJudgeBlocks]
// Writes what rows of the list must be to out[count * columns].
void ExpectRows(const GradientRows& rows, const int64_t* list, int64_t count, Element* out);

// --- hash.cu

// Adds the hash of a tensor's elements, each hashed with its place, to *sum. A change of any bit, or an
// exchange of two elements, changes the sum except with probability 2^-64.
void HashBits(const void* data, int bytes, int64_t rows, int64_t columns, int64_t stride0,
              int64_t stride1, uint64_t* sum);

}  // namespace plumbline::oracle::cuda

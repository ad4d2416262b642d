// SPDX-License-Identifier: Apache-2.0
//
// The two operands of hidden . weight^T: the rows of hidden that count, widened once, and weight,
// packed a panel at a time from where it lies. Rows are numbered by their place in the list given.

#pragma once

#include <cstdint>
#include <vector>

#include "kernel/problem.h"
#include "oracle/numeric/buffer.h"
#include "oracle/numeric/gemm.h"
#include "oracle/numeric/pack.h"

namespace plumbline::oracle {

// Memory for one packed panel. Each thread has its own.
struct PanelScratch {
  // Deep enough to hide the loads and stores of an accumulator, shallow enough for the innermost cache.
  static constexpr int64_t kDepth = 128;
  Buffer value{kDepth * kPanel}, magnitude{kDepth * kPanel};
};

// magnitude[i] = |value[i]| where that is subnormal in fp32, else 0.
void KeepSubnormal(const double* value, int64_t count, double* magnitude);

class Operands {
 public:
  // Magnitudes count as at least `least`. `with_flushable` asks for sums over subnormal operands.
  Operands(const kernel::Problem& problem, std::vector<int64_t> rows, double least,
           bool with_flushable);

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t problem_row(int64_t r) const { return rows_[static_cast<size_t>(r)]; }
  int64_t hidden_size() const { return h_; }
  int64_t vocab() const { return v_; }
  bool with_flushable() const { return with_flushable_; }
  const Matrix& weight() const { return weight_; }
  double least() const { return least_; }
  const double* hidden(int64_t r) const { return hidden_.data() + r * stride_; }
  const double* magnitude(int64_t r) const { return magnitude_.data() + r * stride_; }
  double hidden_lsb(int64_t r) const { return hidden_lsb_[static_cast<size_t>(r)]; }
  // The lowest bit of column v, known once Logits has packed that column.
  const double* weight_lsb(int64_t v) const { return weight_lsb_.data() + v; }

  // Forms z and S (and F, where asked for) of rows [begin, end) for the panel that starts at column
  // `first`, a multiple of kPanel. Row r's numbers go to z + (r - begin) * stride. Columns past the
  // vocabulary are as kColumnStep in row.h says.
  void Logits(int64_t first, int64_t begin, int64_t end, const PanelScratch& scratch, double* z,
              double* abs_sum, double* flushable, int64_t stride) const;

 private:
  void AddFlushable(int64_t depth_begin, int64_t depth, int64_t begin, int64_t end,
                    const PanelScratch& scratch, double* flushable, int64_t stride) const;

  std::vector<int64_t> rows_;
  int64_t h_, v_, stride_;
  double least_;
  bool with_flushable_;
  Matrix weight_;
  Buffer hidden_, magnitude_;
  Buffer subnormal_, normal_;  // magnitudes below and from 2^-126, where asked for
  std::vector<double> hidden_lsb_;
  Buffer weight_lsb_;
};

}  // namespace plumbline::oracle

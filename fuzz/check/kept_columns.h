// SPDX-License-Identifier: Apache-2.0
//
// Logprobs over a part of the vocabulary, renormalised: the k columns of the largest logits (top-k), or
// the fewest columns with a share p of the mass (top-p). The label's column always counts, since it was
// sampled.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/check/rollout_hypotheses.h"

namespace plumbline::fuzz {

class KeptColumns {
 public:
  // Sorts the columns of every row: V doubles a row are kept. `rows` must outlive this.
  KeptColumns(const RolloutRows& rows, int threads);

  double TopK(size_t row, int64_t k) const;  // 1 <= k <= V
  double TopP(size_t row, double p) const;   // 0 < p <= 1
  // The k, and the p of every hundredth and the masses that the rows themselves show, with the least
  // squares of given less predicted over these rows.
  int64_t FittedK(const std::vector<size_t>& fitted) const;
  double FittedP(const std::vector<size_t>& fitted) const;

 private:
  double SumOf(size_t row, int64_t columns) const;

  const RolloutRows& rows_;
  // [row][k - 1]: the sum of the k largest e^(x - max x), and the label's own place and term.
  std::vector<std::vector<double>> sums_;
  std::vector<int64_t> rank_;  // columns with a larger logit than the label's
  std::vector<double> below_;  // max x - x_y
};

}  // namespace plumbline::fuzz

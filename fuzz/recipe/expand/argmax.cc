// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/argmax.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "fuzz/problem/narrow.h"

namespace plumbline::fuzz {
namespace {

// Columns that are summed side by side: each sum keeps its order, and compilers vectorise across
// columns.
constexpr int64_t kColumns = 8;

std::vector<double> Decode(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  Widen(tensor.bytes.data(), tensor.dtype, values);
  return {values.begin(), values.end()};
}

// Finds for each row the first column with the largest logit times sign, which is 1 or -1.
std::vector<int64_t> Extremes(const OwnedProblem& problem, double sign) {
  const auto n = static_cast<size_t>(problem.rows()), h = static_cast<size_t>(problem.hidden_size());
  std::vector<double> hidden = Decode(problem.hidden);
  for (double& x : hidden) x *= sign;
  std::vector<double> largest(n, -std::numeric_limits<double>::infinity());
  std::vector<double> block(h * kColumns);
  std::vector<float> line(h);
  const size_t line_bytes = h * kernel::SizeOf(problem.weight.dtype);
  std::vector<int64_t> best(n, 0);
  for (int64_t v0 = 0; v0 < problem.vocab(); v0 += kColumns) {
    const int64_t columns = std::min(kColumns, problem.vocab() - v0);
    for (int64_t c = 0; c < columns; ++c) {
      Widen(problem.weight.bytes.data() + static_cast<size_t>(v0 + c) * line_bytes,
            problem.weight.dtype, line);
      for (size_t d = 0; d < h; ++d) block[d * kColumns + static_cast<size_t>(c)] = line[d];
    }
    for (size_t i = 0; i < n; ++i) {
      double logits[kColumns] = {};
      for (size_t d = 0; d < h; ++d) {
        const double x = hidden[i * h + d];
        for (size_t c = 0; c < kColumns; ++c) logits[c] += x * block[d * kColumns + c];
      }
      for (int64_t c = 0; c < columns; ++c) {
        if (logits[c] > largest[i]) {
          best[i] = v0 + c;
          largest[i] = logits[c];
        }
      }
    }
  }
  return best;
}

}  // namespace

std::vector<int64_t> Argmaxes(const OwnedProblem& problem) { return Extremes(problem, 1); }
std::vector<int64_t> Argmins(const OwnedProblem& problem) { return Extremes(problem, -1); }

}  // namespace plumbline::fuzz

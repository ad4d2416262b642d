// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/exact_logits.h"

#include <algorithm>

#include "oracle/numeric/buffer.h"
#include "oracle/numeric/gemm.h"
#include "oracle/numeric/pack.h"
#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {

ExactLogits::ExactLogits(const kernel::Problem& problem, std::span<const int64_t> rows, int threads,
                         const std::atomic<bool>* interrupt)
    : rows_(static_cast<int64_t>(rows.size())),
      vocab_(problem.vocab()),
      stride_(oracle::RoundUp(problem.vocab(), oracle::kPanel)),
      values_(static_cast<size_t>(rows_ * stride_)) {
  constexpr int64_t kDepth = 128;  // of a packed panel: it stays in the innermost cache
  const int64_t h = problem.hidden_size();
  std::vector<double> hidden(static_cast<size_t>(rows_ * h));
  for (int64_t r = 0; r < rows_; ++r) {
    oracle::LoadRow(oracle::Matrix::Of(problem.hidden), rows[static_cast<size_t>(r)], h, 0,
                    hidden.data() + r * h, nullptr);
  }
  const oracle::Matrix columns = oracle::Matrix::Of(problem.weight).Transposed();
  oracle::ParallelRanges(
      threads, stride_ / oracle::kPanel, [&](int /*worker*/, int64_t begin, int64_t end) {
        oracle::Buffer value(kDepth * oracle::kPanel), magnitude(kDepth * oracle::kPanel);
        for (int64_t panel = begin; panel < end; ++panel) {
          if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) return;
          const int64_t first = panel * oracle::kPanel;
          for (int64_t k = 0; k < h; k += kDepth) {
            const int64_t depth = std::min(kDepth, h - k);
            oracle::PackPanel(columns, k, depth, first, std::min(oracle::kPanel, vocab_ - first), 0,
                              value.data(), magnitude.data());
            oracle::Gemm({hidden.data() + k, h, 1, value.data(), rows_, depth, 1,
                          values_.data() + first, stride_, k > 0});
          }
        }
      });
}

}  // namespace plumbline::fuzz

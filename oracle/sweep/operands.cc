// SPDX-License-Identifier: Apache-2.0

#include "oracle/sweep/operands.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastNormalFloat = 0x1p-126;

}  // namespace

void KeepSubnormal(const double* value, int64_t count, double* magnitude) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::fabs(value[i]);
    magnitude[i] = x < kLeastNormalFloat ? x : 0;
  }
}

Operands::Operands(const kernel::Problem& problem, std::vector<int64_t> rows, double least,
                   bool with_flushable)
    : rows_(std::move(rows)),
      h_(problem.hidden_size()),
      v_(problem.vocab()),
      stride_(RoundUp(h_, kPanel)),
      least_(least),
      with_flushable_(with_flushable),
      weight_(Matrix::Of(problem.weight)),
      hidden_(this->rows() * stride_),
      magnitude_(this->rows() * stride_),
      weight_lsb_(RoundUp(v_, kPanel)) {
  const Matrix source = Matrix::Of(problem.hidden);
  for (int64_t r = 0; r < this->rows(); ++r) {
    double* const value = hidden_.data() + r * stride_;
    double* const magnitude = magnitude_.data() + r * stride_;
    std::fill(value + h_, value + stride_, 0.0);
    std::fill(magnitude + h_, magnitude + stride_, 0.0);
    LoadRow(source, problem_row(r), h_, least_, value, magnitude);
    double lowest[kPanel];
    std::fill_n(lowest, kPanel, kInfinity);
    UpdateLowestBits(value, stride_ / kPanel, lowest);
    hidden_lsb_.push_back(*std::min_element(lowest, lowest + kPanel));
  }
  if (!with_flushable_) return;
  subnormal_ = Buffer(this->rows() * stride_);
  normal_ = Buffer(this->rows() * stride_);
  KeepSubnormal(hidden_.data(), this->rows() * stride_, subnormal_.data());
  for (int64_t i = 0; i < this->rows() * stride_; ++i) {
    normal_.data()[i] = subnormal_.data()[i] == 0 ? std::fabs(hidden_.data()[i]) : 0;
  }
}

// The sums are of |h| subnormal with any w, then of |h| normal with subnormal w.
void Operands::AddFlushable(int64_t depth_begin, int64_t depth, int64_t begin, int64_t end,
                            const PanelScratch& scratch, double* flushable, int64_t stride) const {
  GemmBlock block = {subnormal_.data() + begin * stride_ + depth_begin,
                     stride_,
                     1,
                     scratch.magnitude.data(),
                     end - begin,
                     depth,
                     1,
                     flushable,
                     stride,
                     depth_begin > 0};
  Gemm(block);
  KeepSubnormal(scratch.value.data(), depth * kPanel, scratch.magnitude.data());
  block.a = normal_.data() + begin * stride_ + depth_begin;
  block.accumulate = true;
  Gemm(block);
}

void Operands::Logits(int64_t first, int64_t begin, int64_t end, const PanelScratch& scratch, double* z,
                      double* abs_sum, double* flushable, int64_t stride) const {
  const int64_t columns = std::min(kPanel, v_ - first), rows = end - begin;
  double* const lowest = weight_lsb_.data() + first;
  std::fill_n(lowest, kPanel, kInfinity);
  // All steps have about the same depth: a last one of a few would pay for a whole step's loads and
  // stores.
  const int64_t steps = (h_ + PanelScratch::kDepth - 1) / PanelScratch::kDepth;
  const int64_t step =
      steps == 0 ? 1 : std::min(PanelScratch::kDepth, RoundUp((h_ + steps - 1) / steps, 8));
  for (int64_t k = 0; k < h_; k += step) {
    const int64_t depth = std::min(step, h_ - k);
    PackPanel(weight_.Transposed(), k, depth, first, columns, least_, scratch.value.data(),
              scratch.magnitude.data());
    UpdateLowestBits(scratch.value.data(), depth, lowest);
    Gemm({hidden_.data() + begin * stride_ + k, stride_, 1, scratch.value.data(), rows, depth, 1, z,
          stride, k > 0});
    Gemm({magnitude_.data() + begin * stride_ + k, stride_, 1, scratch.magnitude.data(), rows, depth, 1,
          abs_sum, stride, k > 0});
    if (with_flushable_) AddFlushable(k, depth, begin, end, scratch, flushable, stride);
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (h_ == 0) {
      std::fill_n(z + r * stride, kPanel, 0.0);
      std::fill_n(abs_sum + r * stride, kPanel, 0.0);
      if (with_flushable_) std::fill_n(flushable + r * stride, kPanel, 0.0);
    }
    std::fill(z + r * stride + columns, z + r * stride + kPanel, -kInfinity);
    std::fill(abs_sum + r * stride + columns, abs_sum + r * stride + kPanel, 0.0);
  }
}

}  // namespace plumbline::oracle

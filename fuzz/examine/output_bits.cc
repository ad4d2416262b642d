// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/output_bits.h"

#include <algorithm>

#include "fuzz/examine/placement.h"

namespace plumbline::fuzz {
namespace {

// Copies go by square blocks, so that neither side of a transposed copy touches a cache line per
// element.
constexpr int64_t kBlock = 32;

template <size_t kWidth>
void CopyTransposed(const std::byte* from, int64_t row_step, int64_t column_step, int64_t rows,
                    int64_t columns, std::byte* to) {
  for (int64_t i0 = 0; i0 < rows; i0 += kBlock) {
    for (int64_t j0 = 0; j0 < columns; j0 += kBlock) {
      for (int64_t i = i0; i < std::min(rows, i0 + kBlock); ++i) {
        for (int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j) {
          std::memcpy(to + (i * columns + j) * static_cast<int64_t>(kWidth),
                      from + i * row_step + j * column_step, kWidth);
        }
      }
    }
  }
}

}  // namespace

ElementBits::ElementBits(const kernel::Tensor& t) : width_(kernel::SizeOf(t.dtype)) {
  const auto width = static_cast<int64_t>(width_);
  const int64_t rows = t.rank > 0 ? t.shape[0] : 1, columns = t.rank > 1 ? t.shape[1] : 1;
  const int64_t row_step = t.rank > 0 ? t.stride[0] * width : 0;
  const int64_t column_step = t.rank > 1 ? t.stride[1] * width : width;
  bytes_.resize(static_cast<size_t>(rows * columns * width));
  const auto* from = static_cast<const std::byte*>(t.data);
  if (bytes_.empty()) return;
  if (column_step != width) {
    const auto copy = width == 2   ? CopyTransposed<2>
                      : width == 4 ? CopyTransposed<4>
                                   : CopyTransposed<8>;
    copy(from, row_step, column_step, rows, columns, bytes_.data());
  } else if (row_step == columns * width) {
    std::memcpy(bytes_.data(), from, bytes_.size());
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(bytes_.data() + i * columns * width, from + i * row_step,
                  static_cast<size_t>(columns * width));
    }
  }
}

void ElementBits::UnifyNaN(kernel::DType dtype) {
  const uint64_t infinity = dtype == kernel::DType::kF32    ? 0x7f800000u
                            : dtype == kernel::DType::kBf16 ? 0x7f80u
                            : dtype == kernel::DType::kF16  ? 0x7c00u
                                                            : 0;
  if (infinity == 0) return;
  const uint64_t sign = uint64_t{1} << (8 * width_ - 1);
  for (size_t i = 0; i < size(); ++i) {
    const uint64_t bits = (*this)[i];
    const bool poison = bits == PoisonBits(0, width_) || bits == PoisonBits(1, width_);
    if ((bits & ~sign) > infinity && !poison) Set(i, infinity | 1);
  }
}

OutputBits CopyBits(const kernel::Results& results, bool one_nan) {
  OutputBits copy;
  size_t o = 0;
  for (const auto* tensor : {&results.logprob, &results.loss, &results.entropy, &results.lse,
                             &results.grad_hidden, &results.grad_weight, &results.first_invalid_row}) {
    if (*tensor) {
      copy.outputs[o] = ElementBits(**tensor);
      if (one_nan) copy.outputs[o].UnifyNaN((*tensor)->dtype);
    }
    ++o;
  }
  return copy;
}

}  // namespace plumbline::fuzz

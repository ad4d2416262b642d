// SPDX-License-Identifier: Apache-2.0
//
// The bits of every output element of a run, dense and in row-major order whatever the strides were, so
// that two runs can be compared. They have the outputs' own width: a campaign copies and compares every
// output of every case, which took a fifth of its time element by element.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::fuzz {

// The bits of one output; empty if it is absent or has no element.
class ElementBits {
 public:
  ElementBits() = default;
  explicit ElementBits(const kernel::Tensor& tensor);

  size_t size() const { return bytes_.size() / width_; }
  bool empty() const { return bytes_.empty(); }
  size_t width() const { return width_; }  // bytes of an element: 2, 4 or 8
  // The bits of element i, zero-extended.
  uint64_t operator[](size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes_.data() + i * width_, width_);
    return bits;
  }
  void UnifyNaN(kernel::DType dtype);  // see CopyBits
  void Set(size_t i, uint64_t bits) { std::memcpy(bytes_.data() + i * width_, &bits, width_); }
  // Uses memcmp: g++ 12 compares vectors of std::byte one byte at a time.
  bool operator==(const ElementBits& other) const {
    return width_ == other.width_ && bytes_.size() == other.bytes_.size() &&
           (bytes_.empty() || std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0);
  }

 private:
  size_t width_ = 1;
  std::vector<std::byte> bytes_;
};

// Outputs in the order logprob, loss, entropy, lse, grad_hidden, grad_weight, first_invalid_row.
struct OutputBits {
  std::array<ElementBits, 7> outputs;
  bool operator==(const OutputBits&) const = default;
};

// `one_nan`: every NaN but a poison has the same bits, for targets that do not promise the definition's
// pattern. NumPy's and PyTorch's sign of a NaN follows the alignment of its array.
OutputBits CopyBits(const kernel::Results& results, bool one_nan = false);

}  // namespace plumbline::fuzz

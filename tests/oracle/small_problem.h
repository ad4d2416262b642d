// SPDX-License-Identifier: Apache-2.0
//
// A problem written down in a test: raw bit patterns of the inputs, dense and row by row, and a view of
// them in any dtype and layout that the test asks for.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::oracle {

struct SmallProblem {
  int64_t n = 0, v = 0, h = 0;
  kernel::DType dtype = kernel::DType::kF32;
  std::vector<uint32_t> hidden, weight;  // [N, H], [V, H]; 16-bit patterns in the low half
  std::vector<int64_t> labels;           // [N]
  std::vector<float> temperature;        // empty: absent; [N]; or [1]: a scalar where N != 1
  std::vector<float> grad_logprob;       // empty: absent; [N], or [1] with a reduction
  std::vector<float> grad_entropy;       // empty: absent; [N], or [1]: broadcast by stride 0
  kernel::Reduction reduction = kernel::Reduction::kNone;
  int64_t ignore_index = -100;
  bool hidden_major = false;   // weight is stored [H, V]
  bool narrow_labels = false;  // int32
  int64_t row_padding = 0;     // elements of 0xff bytes (a NaN) after each row of hidden and weight

  // Views memory of this object. The view is valid until the object changes or View is called again.
  kernel::Problem View() {
    kernel::Problem p;
    p.hidden = Pack(hidden, n, h, false, &hidden_bytes_);
    p.weight = Pack(weight, v, h, hidden_major, &weight_bytes_);
    narrow_.assign(labels.begin(), labels.end());
    p.labels = {narrow_labels ? static_cast<const void*>(narrow_.data()) : labels.data(),
                narrow_labels ? kernel::DType::kI32 : kernel::DType::kI64,
                1,
                {n, 1},
                {1, 1}};
    if (!temperature.empty()) {
      const int rank = static_cast<int64_t>(temperature.size()) == n ? 1 : 0;
      p.temperature = {temperature.data(), kernel::DType::kF32, rank, {n, 1}, {1, 1}};
    }
    if (!grad_logprob.empty()) {
      const int rank = reduction == kernel::Reduction::kNone ? 1 : 0;
      p.grad_logprob = {grad_logprob.data(), kernel::DType::kF32, rank, {n, 1}, {1, 1}};
    }
    if (!grad_entropy.empty()) {
      const int64_t stride = static_cast<int64_t>(grad_entropy.size()) == n ? 1 : 0;
      p.grad_entropy = {grad_entropy.data(), kernel::DType::kF32, 1, {n, 1}, {stride, 1}};
    }
    p.ignore_index = ignore_index;
    p.reduction = reduction;
    return p;
  }

 private:
  kernel::ConstTensor Pack(const std::vector<uint32_t>& bits, int64_t rows, int64_t columns,
                           bool transposed, std::vector<std::byte>* bytes) const {
    const size_t size = kernel::SizeOf(dtype);
    const int64_t line = (transposed ? rows : columns) + row_padding;
    bytes->assign(static_cast<size_t>((transposed ? columns : rows) * line) * size, std::byte{0xff});
    kernel::ConstTensor t{nullptr, dtype, 2, {rows, columns}, {line, 1}};
    if (transposed) {
      t.stride[0] = 1;
      t.stride[1] = line;
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const uint32_t pattern = bits[static_cast<size_t>(i * columns + j)];
        const auto half = static_cast<uint16_t>(pattern);
        std::byte* at = bytes->data() + static_cast<size_t>(i * t.stride[0] + j * t.stride[1]) * size;
        if (size == 2) {
          std::memcpy(at, &half, size);
        } else {
          std::memcpy(at, &pattern, size);
        }
      }
    }
    t.data = bytes->data();
    return t;
  }

  std::vector<std::byte> hidden_bytes_, weight_bytes_;
  std::vector<int32_t> narrow_;
};

inline std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace plumbline::oracle

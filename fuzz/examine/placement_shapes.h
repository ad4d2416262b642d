// SPDX-License-Identifier: Apache-2.0
//
// How a tensor's elements lie in a placement: lines of neighbours, a pitch apart.

#pragma once

#include <cstdint>
#include <utility>

namespace plumbline::fuzz {

struct Shape2 {
  int64_t lines = 0, length = 0;  // elements that lie side by side
  int64_t pitch = 0;              // elements from one line to the next
};

inline Shape2 MatrixShape(int64_t rows, int64_t columns, bool transposed, int64_t padding) {
  if (transposed) std::swap(rows, columns);
  return {columns == 0 ? 0 : rows, columns, columns + padding};
}

inline Shape2 VectorShape(int64_t n) { return {n == 0 ? 0 : 1, n, n}; }

// The lines of n elements that are `stride` apart. With stride 0 there is one element that all share.
// If reversed, each element is a line.
inline Shape2 StridedShape(int64_t n, int64_t stride, bool reversed) {
  if (n == 0 || (stride == 1 && !reversed)) return VectorShape(n);
  if (stride == 0) return {1, 1, 1};
  return {n, 1, stride};
}

}  // namespace plumbline::fuzz

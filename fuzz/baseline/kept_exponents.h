// SPDX-License-Identifier: Apache-2.0
//
// Exponents of a row as a kernel keeps them from forward for backward (contract.kept_argument): the
// distance of a logit from the maximum of its tile, rounded, and that maximum's distance from the
// row's.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace plumbline::fuzz {

// Row: size(), Kept(v), the logit of column v as the softmax keeps it, and Distance(m, kept).
template <class Row>
class KeptExponents {
 public:
  // `bits`: the significant ones of a rounded distance.
  KeptExponents(const Row& row, int bits) : row_(row), bits_(bits) {
    for (size_t first = 0; first < row.size(); first += kTile) {
      const size_t end = std::min(first + kTile, row.size());
      float top = row.Kept(first);
      for (size_t v = first + 1; v < end; ++v) top = std::max(top, row.Kept(v));
      tops_.push_back(top);
    }
  }

  // Returns the distance of column v from m, the row's maximum.
  float Distance(float m, size_t v) const {
    const float top = tops_[v / kTile];
    return Rounded(row_.Distance(top, row_.Kept(v))) + row_.Distance(m, top);
  }

 private:
  static constexpr size_t kTile = 192;  // columns of a tile on Hopper

  float Rounded(float x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const float unit = std::ldexp(1.0F, std::ilogb(x) + 1 - bits_);
    return std::nearbyint(x / unit) * unit;
  }

  const Row& row_;
  int bits_;
  std::vector<float> tops_;
};

}  // namespace plumbline::fuzz

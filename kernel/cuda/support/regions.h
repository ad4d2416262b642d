// SPDX-License-Identifier: Apache-2.0
//
// Offsets of regions in one block of memory. Sizes saturate instead of wrapping around.

#pragma once

#include <cstddef>
#include <cstdint>

namespace plumbline::kernel::cuda {

inline constexpr size_t kMostBytes = size_t{1} << 62;

constexpr int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Returns a * b, or 2^61 where the product would be larger.
inline int64_t HeldProduct(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 61;
  return a == 0 || b <= kMost / a ? a * b : kMost;
}

class RegionAllocator {
 public:
  // Reserves count elements of `size` bytes and returns their offset, a multiple of 256. Once the total
  // has passed kMostBytes, it stays above.
  size_t Take(int64_t count, size_t size) {
    const size_t at = bytes_;
    const auto n = static_cast<size_t>(count);
    if (n > kMostBytes / size || bytes_ > kMostBytes) {
      bytes_ = kMostBytes + 1;
    } else {
      constexpr size_t kAlignment = 256;
      bytes_ += (n * size + kAlignment - 1) / kAlignment * kAlignment;
    }
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace plumbline::kernel::cuda

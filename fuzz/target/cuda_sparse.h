// SPDX-License-Identifier: Apache-2.0
//
// Device addresses of which only some have memory behind them. The range that strides beyond 2^32
// elements span is reserved, and pages are mapped only where elements lie. A case that spans 40 GB
// takes a few dozen MB and, from its second time on, a millisecond; cudaMalloc of it takes a second,
// during which everything else waits. An access between the pages is an error of the device.

#ifndef PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_
#define PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace plumbline::fuzz {

class CudaSparse {
 public:
  // Makes one for the current device. Returns null if the driver does not support it.
  static std::unique_ptr<CudaSparse> Make();
  virtual ~CudaSparse() = default;

  // Returns the address of `bytes` in which the pages under the stretches [from, to), ascending, are
  // mapped; their contents are unspecified. Null if there is no memory for them. Only one mapping
  // exists at a time: Unmap ends it.
  virtual std::byte* Map(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches) = 0;
  // The mapped runs of pages, as offsets from the address.
  virtual const std::vector<std::pair<size_t, size_t>>& runs() const = 0;
  // Call it only when the device no longer uses the mapping.
  virtual void Unmap() = 0;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_

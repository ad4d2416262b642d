// SPDX-License-Identifier: Apache-2.0
//
// Device addresses of which only some exist: what strides beyond 2^32 elements span is reserved, and
// pages lie only where there are elements. A case of 40 GB of addresses takes a few dozen MB and, from
// its second time on, a millisecond; cudaMalloc of it takes a second, and what else there is waits.
// An access between the pages is an error of the device.

#ifndef PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_
#define PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace plumbline::fuzz {

class CudaSparse {
 public:
  // For the current device. Null where the driver does not do this.
  static std::unique_ptr<CudaSparse> Make();
  virtual ~CudaSparse() = default;

  // The address of `bytes` of which the pages under the stretches [from, to) exist, holding anything;
  // null where there is no memory for them. Stretches ascend. One at a time: Unmap ends it.
  virtual std::byte* Map(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches) = 0;
  // What exists: runs of pages, from the address on.
  virtual const std::vector<std::pair<size_t, size_t>>& runs() const = 0;
  // The device must be done with it.
  virtual void Unmap() = 0;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGET_CUDA_SPARSE_H_

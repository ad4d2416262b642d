// SPDX-License-Identifier: Apache-2.0
//
// Device addresses of which only some have memory behind them. The range that strides beyond 2^32
// elements span is reserved, and pages are mapped only where elements lie. A case that spans 40 GB
// takes a few dozen MB and, from its second time on, a millisecond; cudaMalloc of it takes a second,
// during which everything else waits. An access between the pages is an error of the device.
//
// A case of thousands of lines takes a page or two for each, and runs a dozen times: making, mapping
// and unmapping them for every run took half of a campaign's time. So a mapping outlives its run, and
// pages outlive their mapping until Trim.

#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace plumbline::fuzz {

// Gets the driver's functions through the runtime, so that nothing links against the driver.
template <class Function>
bool FindDriverFunction(const char* name, Function* function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 11020;  // the version of the driver's interface that has all of them
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &entry, kVersion, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return false;
  *function = reinterpret_cast<Function>(entry);
  return true;
}

struct DriverFunctions {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;

  bool FindAll() {
    return FindDriverFunction("cuMemGetAllocationGranularity", &granularity) &&
           FindDriverFunction("cuMemAddressReserve", &reserve) &&
           FindDriverFunction("cuMemAddressFree", &free) &&
           FindDriverFunction("cuMemCreate", &create) && FindDriverFunction("cuMemRelease", &release) &&
           FindDriverFunction("cuMemMap", &map) && FindDriverFunction("cuMemUnmap", &unmap) &&
           FindDriverFunction("cuMemSetAccess", &set_access);
  }
};

class CudaSparse {
 public:
  CudaSparse() = default;
  CudaSparse(const DriverFunctions& driver, size_t page) : driver_(driver), page_(page) {}
  CudaSparse(const CudaSparse&) = delete;
  CudaSparse& operator=(const CudaSparse&) = delete;

  // Is called first. Returns false if the driver does not support it for the current device.
  bool Prepare() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || !driver_.FindAll()) return false;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return driver_.granularity(&page_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
  }

  ~CudaSparse() {
    Unmap();
    Release(0);
  }

  // Returns the address of `bytes` in which the pages under the stretches [from, to), ascending, are
  // mapped; their contents are unspecified. Null if there is no memory for them. Only one mapping
  // exists at a time: one of other stretches ends it, as Trim does. The device no longer uses it then.
  std::byte* Map(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches) {
    if (reserved_ > 0 && bytes == bytes_ && stretches == stretches_) {
      return reinterpret_cast<std::byte*>(base_);
    }
    Unmap();
    bytes_ = bytes;
    stretches_ = stretches;
    reserved_ = (bytes + page_ - 1) / page_ * page_;
    if (driver_.reserve(&base_, reserved_, 0, 0, 0) != CUDA_SUCCESS) {
      reserved_ = 0;
      return nullptr;
    }
    for (const auto& [from, to] : stretches) {
      const size_t first = from / page_ * page_, end = (to + page_ - 1) / page_ * page_;
      if (!runs_.empty() && first <= runs_.back().second) {
        runs_.back().second = std::max(runs_.back().second, end);
      } else {
        runs_.emplace_back(first, end);
      }
    }
    CUmemAccessDesc access = {};
    access.location = properties_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (const auto& [from, to] : runs_) {
      for (size_t at = from; at < to; at += page_) {
        if (!MapPage(base_ + at)) return Fail();
      }
      if (driver_.set_access(base_ + from, to - from, &access, 1) != CUDA_SUCCESS) return Fail();
    }
    return reinterpret_cast<std::byte*>(base_);
  }

  // The mapped runs of pages, as offsets from the address.
  const std::vector<std::pair<size_t, size_t>>& runs() const { return runs_; }

  // Ends the mapping, and gives back what is more than kKept pages.
  void Trim() {
    Unmap();
    Release(kKept);
  }

  static constexpr size_t kKept = 128;  // pages of 2 MiB, from case to case

 private:
  void Unmap() {
    for (const CUdeviceptr at : mapped_) driver_.unmap(at, page_);
    mapped_.clear();
    runs_.clear();
    if (reserved_ > 0) driver_.free(base_, reserved_);
    reserved_ = 0;
  }
  void Release(size_t kept) {
    while (pages_.size() > kept) {
      driver_.release(pages_.back());
      pages_.pop_back();
    }
  }
  bool MapPage(CUdeviceptr at) {
    if (mapped_.size() == pages_.size()) {
      CUmemGenericAllocationHandle handle = 0;
      if (driver_.create(&handle, page_, &properties_, 0) != CUDA_SUCCESS) return false;
      pages_.push_back(handle);
    }
    if (driver_.map(at, page_, 0, pages_[mapped_.size()], 0) != CUDA_SUCCESS) return false;
    mapped_.push_back(at);
    return true;
  }

  std::byte* Fail() {
    Trim();
    return nullptr;
  }

  DriverFunctions driver_ = {};
  CUmemAllocationProp properties_ = {};
  size_t page_ = 0;
  std::vector<CUmemGenericAllocationHandle> pages_;  // the first of them are mapped, in order
  std::vector<CUdeviceptr> mapped_;
  CUdeviceptr base_ = 0;
  size_t reserved_ = 0;  // 0: there is no mapping
  size_t bytes_ = 0;     // what Map was asked for, as are stretches_
  std::vector<std::pair<size_t, size_t>> stretches_, runs_;
};

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/cuda_sparse.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>

namespace plumbline::fuzz {
namespace {

// Gets the driver's functions through the runtime, so that nothing links against the driver.
template <class Function>
bool Find(const char* name, Function* function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kVersion = 11020;  // the version of the driver's interface that has all of them
  if (cudaGetDriverEntryPointByVersion(name, &entry, kVersion, cudaEnableDefault, &found) !=
          cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return false;
  }
  *function = reinterpret_cast<Function>(entry);
  return true;
}

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;

  bool FindAll() {
    return Find("cuMemGetAllocationGranularity", &granularity) &&
           Find("cuMemAddressReserve", &reserve) && Find("cuMemAddressFree", &free) &&
           Find("cuMemCreate", &create) && Find("cuMemRelease", &release) && Find("cuMemMap", &map) &&
           Find("cuMemUnmap", &unmap) && Find("cuMemSetAccess", &set_access);
  }
};

class Sparse final : public CudaSparse {
 public:
  bool Prepare() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || !driver_.FindAll()) return false;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return driver_.granularity(&page_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
  }

  ~Sparse() override {
    Unmap();
    for (const CUmemGenericAllocationHandle handle : pages_) driver_.release(handle);
  }

  std::byte* Map(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches) override {
    Unmap();
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

  const std::vector<std::pair<size_t, size_t>>& runs() const override { return runs_; }

  void Unmap() override {
    for (const CUdeviceptr at : mapped_) driver_.unmap(at, page_);
    mapped_.clear();
    runs_.clear();
    if (reserved_ > 0) driver_.free(base_, reserved_);
    reserved_ = 0;
    while (pages_.size() > kKept) {
      driver_.release(pages_.back());
      pages_.pop_back();
    }
  }

 private:
  static constexpr size_t kKept = 128;  // pages of 2 MiB, from case to case

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
    Unmap();
    return nullptr;
  }

  Driver driver_ = {};
  CUmemAllocationProp properties_ = {};
  size_t page_ = 0;
  std::vector<CUmemGenericAllocationHandle> pages_;  // the first of them are mapped, in order
  std::vector<CUdeviceptr> mapped_;
  CUdeviceptr base_ = 0;
  size_t reserved_ = 0;
  std::vector<std::pair<size_t, size_t>> runs_;
};

}  // namespace

std::unique_ptr<CudaSparse> CudaSparse::Make() {
  auto sparse = std::make_unique<Sparse>();
  if (!sparse->Prepare()) return nullptr;
  return sparse;
}

}  // namespace plumbline::fuzz

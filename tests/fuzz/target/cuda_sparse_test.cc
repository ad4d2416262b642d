// SPDX-License-Identifier: Apache-2.0
// CudaSparse with functions that count in place of the driver's.
#include "fuzz/target/interface/cuda_sparse.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace plumbline::fuzz {
namespace {

constexpr size_t kPage = 4096;
using Stretches = std::vector<std::pair<size_t, size_t>>;

// What the driver holds, and what it was asked.
struct Driver {
  std::set<CUmemGenericAllocationHandle> pages;
  std::set<CUdeviceptr> mapped;
  size_t reserved = 0, created = 0, maps = 0, most = SIZE_MAX;
};
Driver driver;

DriverFunctions Counting() {
  driver = {};
  DriverFunctions functions = {};
  functions.reserve = [](CUdeviceptr* base, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    *base = CUdeviceptr{1} << 40;
    driver.reserved += bytes;
    return CUDA_SUCCESS;
  };
  functions.free = [](CUdeviceptr, size_t bytes) {
    EXPECT_TRUE(driver.mapped.empty());
    driver.reserved -= bytes;
    return CUDA_SUCCESS;
  };
  functions.create = [](CUmemGenericAllocationHandle* page, size_t bytes, const CUmemAllocationProp*,
                        unsigned long long) {
    EXPECT_EQ(bytes, kPage);
    if (driver.pages.size() == driver.most) return CUDA_ERROR_OUT_OF_MEMORY;
    *page = ++driver.created;
    driver.pages.insert(*page);
    return CUDA_SUCCESS;
  };
  functions.release = [](CUmemGenericAllocationHandle page) {
    EXPECT_EQ(driver.pages.erase(page), 1U);
    return CUDA_SUCCESS;
  };
  functions.map = [](CUdeviceptr at, size_t, size_t, CUmemGenericAllocationHandle page,
                     unsigned long long) {
    EXPECT_TRUE(driver.pages.contains(page));
    EXPECT_TRUE(driver.mapped.insert(at).second);
    ++driver.maps;
    return CUDA_SUCCESS;
  };
  functions.unmap = [](CUdeviceptr at, size_t) {
    EXPECT_EQ(driver.mapped.erase(at), 1U);
    return CUDA_SUCCESS;
  };
  functions.set_access = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
    return CUDA_SUCCESS;
  };
  return functions;
}

// Returns stretches of a line each, on `lines` pages with two pages between.
Stretches Lines(size_t lines) {
  Stretches stretches;
  for (size_t i = 0; i < lines; ++i) stretches.emplace_back(3 * i * kPage + 64, 3 * i * kPage + 128);
  return stretches;
}
size_t Bytes(size_t lines) { return 3 * lines * kPage; }

// Fails if each run of a case maps its pages again, or if another arena is taken for the one before.
TEST(CudaSparse, RunsOfOneArenaShareAMapping) {
  CudaSparse sparse(Counting(), kPage);
  std::byte* const memory = sparse.Map(Bytes(5), Lines(5));
  EXPECT_EQ(driver.maps, 5U);
  EXPECT_EQ(sparse.Map(Bytes(5), Lines(5)), memory);
  EXPECT_EQ(driver.maps, 5U);
  EXPECT_EQ(sparse.runs().size(), 5U);

  sparse.Map(Bytes(7), Lines(5));
  EXPECT_EQ(driver.maps, 10U);
  sparse.Map(Bytes(7), Lines(6));
  EXPECT_EQ(driver.maps, 16U);
  EXPECT_EQ(sparse.runs().size(), 6U);
  EXPECT_EQ(driver.mapped.size(), 6U);
  EXPECT_EQ(driver.created, 6U);  // pages outlive their mapping
  EXPECT_EQ(driver.reserved, Bytes(7));
}

// Fails if a case's memory stays behind it, or if a mapping that was given back is used again.
TEST(CudaSparse, TrimGivesBackWhatACaseRarelyNeeds) {
  CudaSparse sparse(Counting(), kPage);
  const size_t lines = CudaSparse::kKept + 9;
  sparse.Map(Bytes(lines), Lines(lines));
  sparse.Trim();
  EXPECT_EQ(driver.pages.size(), CudaSparse::kKept);
  EXPECT_EQ(driver.mapped.size() + driver.reserved, 0U);
  sparse.Map(Bytes(lines), Lines(lines));
  EXPECT_EQ(driver.maps, 2 * lines);
}

// Fails if an attempt without memory leaves pages that another process waits for, or counts as a
// mapping.
TEST(CudaSparse, AFailedAttemptHoldsNothing) {
  CudaSparse sparse(Counting(), kPage);
  const size_t lines = CudaSparse::kKept + 9;
  driver.most = lines - 1;
  EXPECT_EQ(sparse.Map(Bytes(lines), Lines(lines)), nullptr);
  EXPECT_EQ(driver.pages.size(), CudaSparse::kKept);
  EXPECT_EQ(driver.mapped.size() + driver.reserved, 0U);
  driver.most = lines;
  EXPECT_NE(sparse.Map(Bytes(lines), Lines(lines)), nullptr);
  EXPECT_EQ(driver.mapped.size(), lines);
}

// Fails if anything is left when it ends.
TEST(CudaSparse, ItsEndGivesEverythingBack) {
  {
    CudaSparse sparse(Counting(), kPage);
    sparse.Map(Bytes(5), Lines(5));
  }
  EXPECT_EQ(driver.pages.size() + driver.mapped.size() + driver.reserved, 0U);
}

}  // namespace
}  // namespace plumbline::fuzz

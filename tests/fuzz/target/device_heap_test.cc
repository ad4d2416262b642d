// SPDX-License-Identifier: Apache-2.0
//
// The heap of what a target allocates, on memory of the host.

#include "fuzz/target/interface/device_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace plumbline::fuzz {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kHeap = size_t{1} << 16;

// What a HostMemory has been asked for.
struct Asked {
  int reserved = 0, waits = 0;
  std::map<std::byte*, std::unique_ptr<std::byte[]>> elsewhere;
};

class HostMemory final : public HeapMemory {
 public:
  explicit HostMemory(Asked* asked) : asked_(*asked) {}
  std::byte* Reserve(size_t bytes) override {
    ++asked_.reserved;
    memory_.resize(bytes);
    return memory_.data();
  }
  std::byte* AllocateElsewhere(size_t bytes, void*) override {
    auto block = std::make_unique<std::byte[]>(bytes);
    std::byte* const address = block.get();
    asked_.elsewhere[address] = std::move(block);
    return address;
  }
  void FreeElsewhere(std::byte* block, void*) override { asked_.elsewhere.erase(block); }
  void Fill(std::byte* to, unsigned char value, size_t bytes, void*) override {
    std::memset(to, value, bytes);
  }
  bool Wait() override {
    ++asked_.waits;
    return true;
  }
  bool Fetch(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return true;
  }

 private:
  Asked& asked_;
  std::vector<std::byte> memory_;
};

class DeviceHeapTest : public ::testing::Test {
 protected:
  std::byte* Take(size_t bytes) { return static_cast<std::byte*>(heap_.Allocate(bytes, nullptr)); }
  static std::vector<std::byte> Bytes(const std::byte* block, size_t bytes) {
    return {block, block + bytes};
  }

  Asked asked_;
  DeviceHeap heap_{std::make_unique<HostMemory>(&asked_), kHeap};
};

// Fails if a block is not filled with the run's pattern, or has a neighbour's bytes in it.
TEST_F(DeviceHeapTest, ABlockHoldsThePatternOfItsRun) {
  for (const auto pattern : {uint8_t{0x7f}, uint8_t{0xfe}}) {
    heap_.Begin(pattern);
    std::byte* const first = Take(100);
    std::byte* const second = Take(1);
    EXPECT_THAT(Bytes(first, 100), Each(std::byte{pattern}));
    EXPECT_THAT(Bytes(second, 1), Each(std::byte{pattern}));
    EXPECT_EQ(heap_.End(), "");
    heap_.Free(first, nullptr);
    heap_.Free(second, nullptr);
  }
  EXPECT_EQ(asked_.reserved, 1);
}

// Fails if a write of one byte outside of a block goes unseen, on either side, or another is blamed.
TEST_F(DeviceHeapTest, AByteOutsideIsSeen) {
  heap_.Begin(0x7f);
  std::byte* block = Take(100);
  Take(200);
  block[100] = std::byte{3};
  EXPECT_EQ(heap_.End(),
            "wrote outside of what it allocated: byte +0 past the end of a block of 100 bytes holds "
            "0x03, was 0xa5");
  heap_.Begin(0x7f);
  EXPECT_EQ(heap_.End(), "");  // it has been told
  heap_.Begin(0x7f);
  Take(100)[-2] = std::byte{4};  // behind the block of 200 bytes, which lives on
  EXPECT_THAT(heap_.End(), HasSubstr("past the end of a block of 200 bytes holds 0x04"));
}

// Fails if what lies before the first block is not a band.
TEST_F(DeviceHeapTest, AByteBeforeTheFirstBlockIsSeen) {
  heap_.Begin(0x7f);
  Take(64)[-2] = std::byte{4};
  EXPECT_THAT(heap_.End(), HasSubstr("byte 2 before the start of a block of 64 bytes holds 0x04"));
}

// Fails if a block that outlives its run is filled again or handed out again, if what is written beyond
// it in a later run is not seen, or if what was freed is not used again by the next run.
TEST_F(DeviceHeapTest, ABlockThatOutlivesItsRunIsLeftAlone) {
  heap_.Begin(0x7f);
  std::byte* const freed = Take(5000);
  std::byte* const kept = Take(300);
  EXPECT_EQ(heap_.End(), "");
  heap_.Free(freed, nullptr);
  std::memset(kept, 1, 300);
  for (int run = 0; run < 3; ++run) {
    heap_.Begin(0xfe);
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(Take(3000));
      std::memset(blocks.back(), 2, 3000);
    }
    EXPECT_EQ(blocks[0], freed);
    EXPECT_THAT(Bytes(kept, 300), Each(std::byte{1}));
    if (run == 1) kept[300] = std::byte{9};
    EXPECT_THAT(heap_.End(),
                run == 1 ? HasSubstr("past the end of a block of 300 bytes") : HasSubstr(""));
    EXPECT_EQ(heap_.End(), "");
    for (std::byte* const block : blocks) heap_.Free(block, nullptr);
  }
  EXPECT_TRUE(asked_.elsewhere.empty());
}

// Fails if freed memory is handed out again in the same run.
TEST_F(DeviceHeapTest, FreedMemoryKeepsItsValuesInTheRun) {
  heap_.Begin(0x7f);
  std::byte* const freed = Take(100);
  std::memset(freed, 5, 100);
  heap_.Free(freed, nullptr);
  EXPECT_NE(Take(100), freed);
  EXPECT_THAT(Bytes(freed, 100), Each(std::byte{5}));
}

// Fails if a block that does not fit is refused, is not counted, or is not given back where it is from.
TEST_F(DeviceHeapTest, WhatDoesNotFitComesFromTheDevice) {
  heap_.Begin(0x7f);
  std::byte* const small = Take(100);
  std::byte* const large = Take(kHeap);
  ASSERT_EQ(asked_.elsewhere.size(), 1u);
  EXPECT_TRUE(asked_.elsewhere.contains(large));
  std::byte* const last = Take(kHeap - 3 * 4096 - 200);  // bands included, this one byte is too many
  EXPECT_TRUE(asked_.elsewhere.contains(last));
  EXPECT_EQ(heap_.elsewhere(), 2);
  EXPECT_EQ(heap_.End(), "");
  for (std::byte* const block : {small, large, last}) heap_.Free(block, nullptr);
  EXPECT_TRUE(asked_.elsewhere.empty());
}

// Fails if what is allocated outside of a run, as a module does when it is imported, lies in the heap,
// where a run would fill it.
TEST_F(DeviceHeapTest, OutsideOfARunTheDeviceAllocates) {
  std::byte* const early = Take(10);
  EXPECT_TRUE(asked_.elsewhere.contains(early));
  heap_.Begin(0x7f);
  EXPECT_EQ(heap_.End(), "");
  EXPECT_TRUE(asked_.elsewhere.contains(Take(10)));
  EXPECT_EQ(heap_.elsewhere(), 0);  // no run asked for them
  EXPECT_EQ(asked_.reserved, 0);
  EXPECT_EQ(heap_.End(), "");  // without a run
}

}  // namespace
}  // namespace plumbline::fuzz

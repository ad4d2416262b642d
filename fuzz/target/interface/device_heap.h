// SPDX-License-Identifier: Apache-2.0
//
// The memory that a target allocates on its device by itself, where its framework lets an allocator be
// put in the place of its own. What a run allocates lies between guard bands in a piece of memory of
// the heap's own, and is filled with a pattern: an element that the target never writes shows, and so
// does a write beyond an allocation.
//
// A run is what lies between Begin and End. No memory is used twice in a run, so that what was freed
// and is read again still has its values. A block that outlives its run stays where it is, and is
// neither reused nor filled again. Damage is told once. Blocks that do not fit, and those that are
// allocated outside of a run, come from the device's own allocator, and nothing is known of them.
//
// Every function may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// How a heap reaches its device. A stream is the device's; work on one stream is done in order.
class HeapMemory {
 public:
  virtual ~HeapMemory() = default;
  // Returns memory that lives as long as the process; null if there is none. Aligned to 512 bytes.
  virtual std::byte* Reserve(size_t bytes) = 0;
  // The device's own allocator, in the order of the stream; null if there is no memory.
  virtual std::byte* AllocateElsewhere(size_t bytes, void* stream) = 0;
  virtual void FreeElsewhere(std::byte* block, void* stream) = 0;
  virtual void Fill(std::byte* to, unsigned char value, size_t bytes, void* stream) = 0;
  // Waits for all streams. False if the device is lost, which others will notice.
  virtual bool Wait() = 0;
  virtual bool Fetch(std::byte* to, const std::byte* from, size_t bytes) = 0;
};

class DeviceHeap {
 public:
  // `bytes` is the most that blocks of a run, their bands and the blocks that outlived earlier runs
  // take together. It is reserved when a run first allocates.
  DeviceHeap(std::unique_ptr<HeapMemory> memory, size_t bytes);

  // Begins a run, whose blocks are filled with `pattern`. Ends one that was not ended.
  void Begin(unsigned char pattern);
  // Ends the run, waits for the device, and returns the first byte of a band that was written, in
  // words; empty if none was.
  std::string End();

  // Null if the device has no such memory. 0 bytes are a block of 1.
  void* Allocate(size_t bytes, void* stream);
  void Free(void* block, void* stream);

  // The blocks of all runs that came from the device's own allocator because they did not fit.
  int64_t elsewhere() const;

 private:
  struct Block {
    size_t bytes = 0;  // as asked for
    size_t end = 0;    // of the band behind it
    bool live = true, damaged = false;
  };
  std::byte* Place(size_t bytes, void* stream);
  std::string Damage(size_t from, size_t to, const std::string& what, bool before);

  mutable std::mutex mutex_;
  std::unique_ptr<HeapMemory> memory_;
  size_t bytes_;
  std::byte* base_ = nullptr;
  bool reserved_ = false, running_ = false;
  unsigned char pattern_ = 0;
  size_t next_ = 0;                 // where the next block may begin
  std::map<size_t, Block> blocks_;  // by where they begin in the memory
  std::vector<std::byte> band_;     // as fetched
  int64_t elsewhere_ = 0;
};

}  // namespace plumbline::fuzz

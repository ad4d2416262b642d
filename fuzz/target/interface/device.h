// SPDX-License-Identifier: Apache-2.0
//
// A device as the harness uses it: memory, copies in the order of one stream, and errors. A target
// whose tensors lie in host memory has no Device. fuzz/target/interface/cuda_device.h implements it for
// CUDA; tests implement it on host memory.
//
// Everything below is enqueued on stream() and happens in order; Wait ends it. One thread uses a
// device.

#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::fuzz {

// An illegal address, or a launch that failed: from now on every call of this process to the device
// fails. The message is the device's own.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device has no memory of this size left.
class DeviceFull : public std::runtime_error {
 public:
  DeviceFull(size_t wanted, size_t free, size_t total)
      : std::runtime_error("device memory: " + std::to_string(wanted >> 20) + " MiB wanted, " +
                           std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                           " MiB free") {}
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DLDevice dlpack() const = 0;
  virtual void* stream() const = 0;

  // Returns memory aligned to 256 bytes. Throws DeviceFull.
  virtual std::byte* Allocate(size_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;
  virtual void CopyIn(std::byte* to, const std::byte* from, size_t bytes) = 0;   // from is free at once
  virtual void CopyOut(std::byte* to, const std::byte* from, size_t bytes) = 0;  // complete after Wait
  virtual void Fill(std::byte* to, unsigned char value, size_t bytes) = 0;
  // Lets nothing that is enqueued later begin before this time has passed; other streams are not held
  // up.
  virtual void Delay(std::chrono::microseconds time) = 0;
  // Waits until all of it is done. Throws DeviceLost. Returns the message of an error that was left
  // behind and does no further harm; empty if there is none.
  virtual std::string Wait() = 0;

  struct Memory {
    size_t free = 0, total = 0;
  };
  virtual Memory GetMemory() = 0;  // the whole device's, whoever holds it

  // Memory that is kept from case to case, since cudaMalloc takes longer than a small case. There is
  // one piece for each use. A piece loses its contents when it grows.
  enum class Use : uint8_t { kArena, kScratch };
  std::byte* Keep(Use use, size_t bytes);
  // Gives back pieces larger than a case usually needs, since several workers share a device.
  void Trim();
  // Returns `bytes` of memory for a case that uses the stretches [from, to), ascending. These and the
  // bytes around them are 0 once this is done. Memory between them may not exist. Valid until the next
  // MapSparse or Unmap, which are called after a Wait. It lasts from run to run of a case: Unmap gives
  // it back at the end of the case.
  virtual std::byte* MapSparse(size_t bytes, const std::vector<std::pair<size_t, size_t>>& stretches);
  virtual void Unmap() {}
  // The bytes that Keep holds.
  size_t kept() const;

 private:
  struct Piece {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };
  void Drop(Piece* piece);

  std::array<Piece, 2> pieces_;
};

}  // namespace plumbline::fuzz

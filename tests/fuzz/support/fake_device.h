// SPDX-License-Identifier: Apache-2.0
//
// A device whose memory is the host's, so that the harness's use of a device can be tested without one.
// It counts calls, checks every address that it is given, and fails where it is told to.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "fuzz/target/interface/device.h"

namespace plumbline::fuzz::testing {

class FakeDevice final : public Device {
 public:
  ~FakeDevice() override;

  DLDevice dlpack() const override { return {kDLCUDA, 0}; }
  void* stream() const override { return nullptr; }
  std::byte* Allocate(size_t bytes) override;
  void Free(std::byte* memory) override;
  void CopyIn(std::byte* to, const std::byte* from, size_t bytes) override;
  void CopyOut(std::byte* to, const std::byte* from, size_t bytes) override;
  void Fill(std::byte* to, unsigned char value, size_t bytes) override;
  void Delay(std::chrono::microseconds time) override;
  std::string Wait() override;
  Memory GetMemory() override { return {total - used(), total}; }

  size_t used() const;

  // The errors that it is told to produce.
  size_t total = size_t{1} << 40;
  std::string left_behind;  // Wait returns it, once
  std::string lost;         // not empty: Wait throws it

  // The calls that it has seen.
  int64_t copied_in = 0, copied_out = 0, delays = 0, waits = 0;
  std::vector<std::string> violations;  // broken rules of fuzz/target/interface/device.h

 private:
  struct Arrival {
    std::byte* to;
    std::vector<std::byte> bytes;
  };
  void CheckInside(const char* what, const std::byte* at, size_t bytes);

  std::map<std::byte*, size_t> pieces_;
  std::vector<Arrival> arriving_;
};

}  // namespace plumbline::fuzz::testing

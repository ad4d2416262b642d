// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/support/fake_device.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace plumbline::fuzz::testing {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

FakeDevice::~FakeDevice() {
  for (const auto& [memory, bytes] : pieces_) munmap(memory, bytes);
}

// Memory is mapped, so that a terabyte costs only the pages that are touched. It is filled with values
// that nobody may rely on.
std::byte* FakeDevice::Allocate(size_t bytes) {
  if (bytes > total - used()) throw DeviceFull(bytes, total - used(), total);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw DeviceFull(bytes, 0, total);
  auto* const piece = static_cast<std::byte*>(memory);
  if (bytes <= size_t{64} << 20) std::memset(piece, 0x5a, bytes);
  pieces_[piece] = bytes;
  return piece;
}

void FakeDevice::Free(std::byte* memory) {
  const auto piece = pieces_.find(memory);
  if (piece == pieces_.end()) return violations.push_back("freed what was not allocated");
  munmap(memory, piece->second);
  pieces_.erase(piece);
}

void FakeDevice::CopyIn(std::byte* to, const std::byte* from, size_t bytes) {
  CheckInside("copy in", to, bytes);
  std::memcpy(to, from, bytes);
  copied_in += static_cast<int64_t>(bytes);
}

void FakeDevice::CopyOut(std::byte* to, const std::byte* from, size_t bytes) {
  CheckInside("copy out", from, bytes);
  arriving_.push_back({to, {from, from + bytes}});
  copied_out += static_cast<int64_t>(bytes);
}

void FakeDevice::Fill(std::byte* to, unsigned char value, size_t bytes) {
  CheckInside("fill", to, bytes);
  // Whole pages that are to be zero are given back instead, and then read as 0.
  const auto begin = reinterpret_cast<uintptr_t>(to);
  const uintptr_t from = (begin + kPage - 1) / kPage * kPage, end = (begin + bytes) / kPage * kPage;
  if (value != 0 || from >= end) {
    std::memset(to, value, bytes);
    return;
  }
  std::memset(to, 0, from - begin);
  madvise(to + (from - begin), end - from, MADV_DONTNEED);
  std::memset(to + (end - begin), 0, begin + bytes - end);
}

void FakeDevice::Delay(std::chrono::microseconds) { ++delays; }

std::string FakeDevice::Wait() {
  ++waits;
  if (!lost.empty()) throw DeviceLost(lost);
  for (const Arrival& a : arriving_) std::memcpy(a.to, a.bytes.data(), a.bytes.size());
  arriving_.clear();
  return std::exchange(left_behind, {});
}

size_t FakeDevice::used() const {
  size_t bytes = 0;
  for (const auto& [memory, size] : pieces_) bytes += size;
  return bytes;
}

void FakeDevice::CheckInside(const char* what, const std::byte* at, size_t bytes) {
  for (const auto& [memory, size] : pieces_) {
    if (at >= memory && at + bytes <= memory + size) return;
  }
  violations.push_back(std::string(what) + " outside of what was allocated");
}

}  // namespace plumbline::fuzz::testing

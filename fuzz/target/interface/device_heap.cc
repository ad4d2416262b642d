// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/device_heap.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace plumbline::fuzz {
namespace {

constexpr size_t kLine = 512;  // what PyTorch's allocator aligns to
constexpr size_t kBand = 4096;
constexpr unsigned char kBandByte = 0xa5;

size_t RoundUpToLine(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

DeviceHeap::DeviceHeap(std::unique_ptr<HeapMemory> memory, size_t bytes)
    : memory_(std::move(memory)), bytes_(bytes) {}

void DeviceHeap::Begin(unsigned char pattern) {
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [](const auto& block) { return !block.second.live; });
  pattern_ = pattern;
  next_ = kBand;
  running_ = true;
}

void* DeviceHeap::Allocate(size_t bytes, void* stream) {
  const std::lock_guard lock(mutex_);
  if (running_) {
    if (std::byte* const placed = Place(std::max<size_t>(bytes, 1), stream)) return placed;
    ++elsewhere_;
  }
  return memory_->AllocateElsewhere(bytes, stream);
}

std::byte* DeviceHeap::Place(size_t bytes, void* stream) {
  if (!reserved_) {
    reserved_ = true;
    base_ = memory_->Reserve(bytes_);
  }
  if (base_ == nullptr || bytes > bytes_) return nullptr;
  const size_t length = RoundUpToLine(bytes + kBand);
  // Blocks that outlived their run lie where they did: the next one begins behind those in the way.
  size_t at = next_;
  for (auto it = blocks_.lower_bound(at); it != blocks_.end() && it->first < at + length; ++it) {
    at = it->second.end;
  }
  if (at + length > bytes_) return nullptr;
  if (at == kBand) memory_->Fill(base_, kBandByte, kBand, stream);  // before the first block
  memory_->Fill(base_ + at, pattern_, bytes, stream);
  memory_->Fill(base_ + at + bytes, kBandByte, length - bytes, stream);
  blocks_[at] = {.bytes = bytes, .end = at + length};
  next_ = at + length;
  return base_ + at;
}

void DeviceHeap::Free(void* block, void* stream) {
  const std::lock_guard lock(mutex_);
  auto* const memory = static_cast<std::byte*>(block);
  if (base_ != nullptr && memory >= base_ && memory < base_ + bytes_) {
    const auto found = blocks_.find(static_cast<size_t>(memory - base_));
    if (found != blocks_.end()) found->second.live = false;
    return;
  }
  memory_->FreeElsewhere(memory, stream);
}

std::string DeviceHeap::Damage(size_t from, size_t to, const std::string& what, bool before) {
  band_.resize(to - from);
  if (!memory_->Fetch(band_.data(), base_ + from, band_.size())) return "";
  const auto wrong = [](std::byte held) { return held != std::byte{kBandByte}; };
  const auto first = std::ranges::find_if(band_, wrong);
  if (first == band_.end()) return "";
  const auto last = std::ranges::find_if(band_.rbegin(), band_.rend(), wrong);
  const auto at = before ? last.base() - 1 : first;  // the one next to the block
  const size_t away =
      before ? static_cast<size_t>(band_.end() - at) : static_cast<size_t>(at - band_.begin());
  char bytes[40];
  std::snprintf(bytes, sizeof bytes, " holds 0x%02x, was 0x%02x", static_cast<unsigned>(*at),
                unsigned{kBandByte});
  return "wrote outside of what it allocated: byte " + (before ? "" : std::string("+")) +
         std::to_string(away) + (before ? " before the start of " : " past the end of ") + what + bytes;
}

std::string DeviceHeap::End() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(running_, false)) return "";
  if (base_ == nullptr || !memory_->Wait()) return "";
  for (auto& [at, block] : blocks_) {
    if (block.damaged) continue;
    const std::string what = "a block of " + std::to_string(block.bytes) + " bytes";
    std::string damage = at == kBand ? Damage(0, kBand, what, true) : "";
    if (damage.empty()) damage = Damage(at + block.bytes, block.end, what, false);
    block.damaged = !damage.empty();
    if (block.damaged) return damage;
  }
  return "";
}

int64_t DeviceHeap::elsewhere() const {
  const std::lock_guard lock(mutex_);
  return elsewhere_;
}

}  // namespace plumbline::fuzz

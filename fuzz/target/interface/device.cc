// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/device.h"

#include <algorithm>

namespace plumbline::fuzz {
namespace {

// Allocation sizes are rounded up to kStep. Trim gives back pieces above kMostKept.
constexpr size_t kStep = size_t{1} << 20;
constexpr size_t kMostKept = size_t{256} << 20;

}  // namespace

std::byte* Device::Keep(Use use, size_t bytes) {
  Piece& piece = pieces_[static_cast<size_t>(use)];
  if (piece.bytes < bytes) {
    Drop(&piece);
    // Small sizes are doubled, so that a campaign soon stops allocating. A large size is needed once.
    const size_t room = bytes < kMostKept / 2 ? 2 * bytes : bytes;
    const size_t rounded = (room + kStep - 1) / kStep * kStep;
    piece.memory = Allocate(rounded);
    piece.bytes = rounded;
  }
  return piece.memory;
}

std::byte* Device::MapSparse(size_t bytes, const std::vector<std::pair<size_t, size_t>>&) {
  std::byte* const memory = Keep(Use::kArena, bytes);
  Fill(memory, 0, bytes);
  return memory;
}

void Device::Trim() {
  for (Piece& piece : pieces_) {
    if (piece.bytes > kMostKept) Drop(&piece);
  }
}

size_t Device::kept() const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.bytes;
  return bytes;
}

void Device::Drop(Piece* piece) {
  if (piece->memory != nullptr) Free(piece->memory);
  *piece = {};
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "oracle/numeric/buffer.h"

#include <bit>
#include <cstddef>
#include <new>
#include <vector>

namespace plumbline::oracle {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int64_t kSmallest = int64_t{1} << 16, kLargest = int64_t{1} << 23, kKept = int64_t{1} << 25;

void Free(void* block) { ::operator delete(block, kAlignment); }

struct FreeList {
  struct Block {
    void* data;
    int64_t bytes;
  };
  std::vector<Block> blocks;
  int64_t bytes = 0;
  ~FreeList() {
    for (const Block& block : blocks) Free(block.data);
  }
};
thread_local FreeList free_list;

bool IsKept(int64_t bytes) { return bytes >= kSmallest && bytes <= kLargest; }

}  // namespace

Buffer::Buffer(int64_t count) : bytes_(count * static_cast<int64_t>(sizeof(double))) {
  // Rounds sizes up to few distinct ones, so that a freed block fits the next request.
  if (IsKept(bytes_)) bytes_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes_)));
  for (size_t i = free_list.blocks.size(); i-- > 0;) {
    const FreeList::Block block = free_list.blocks[i];
    if (block.bytes != bytes_) continue;
    free_list.blocks.erase(free_list.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    free_list.bytes -= bytes_;
    data_ = static_cast<double*>(block.data);
    return;
  }
  data_ = static_cast<double*>(::operator new(static_cast<size_t>(bytes_), kAlignment));
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (IsKept(bytes_) && free_list.bytes + bytes_ <= kKept) {
    free_list.blocks.push_back({data_, bytes_});
    free_list.bytes += bytes_;
  } else {
    Free(data_);
  }
}

}  // namespace plumbline::oracle

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/placement_region.h"

#include "fuzz/base/text.h"

namespace plumbline::fuzz {

std::string DescribeByte(const Region& region, size_t at, std::byte was, std::byte is) {
  const size_t end = region.data + region.Extent();
  std::string where;
  if (at < region.data) {
    where = Text("%zu bytes before its first element", region.data - at);
  } else if (at >= end) {
    where = Text("%zu bytes past its end", at - end);
  } else if ((at - region.data) % region.pitch >= region.line_bytes) {
    where = Text("padding after line %zu", (at - region.data) / region.pitch);
  } else {
    where = Text("line %zu", (at - region.data) / region.pitch);
  }
  const auto offset = static_cast<int64_t>(at) - static_cast<int64_t>(region.data);
  return std::string(region.name) + Text(": byte %+lld (", static_cast<long long>(offset)) + where +
         Text(") holds 0x%02x, was 0x%02x", std::to_integer<unsigned>(is),
              std::to_integer<unsigned>(was));
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/disk_space.h"

#include <system_error>

namespace plumbline::fuzz {

std::string DiskShortage(const std::filesystem::path& folder, int64_t least) {
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(folder, code);
  if (code || space.available == static_cast<std::uintmax_t>(-1)) return {};
  if (space.available >= static_cast<std::uintmax_t>(least)) return {};
  return "the disk is nearly full: " + std::to_string(space.available) + " bytes are free in " +
         folder.string() + ", a campaign needs " + std::to_string(least);
}

}  // namespace plumbline::fuzz

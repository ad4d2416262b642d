// SPDX-License-Identifier: Apache-2.0
//
// The rules of this tree's structure: kernel <- oracle <- fuzz <- tests, bench; the rooms of each as
// its README.md lists them; what a library may cost; lengths, licences, build files and comments.

#pragma once

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::structure {

inline constexpr std::array<std::string_view, 5> kTopRooms = {"kernel", "oracle", "fuzz", "tests",
                                                              "bench"};
// The folders whose README.md has a table of rooms (room_table.h).
inline constexpr std::array<std::string_view, 4> kRoomPages = {"fuzz", "kernel", "kernel/cuda",
                                                               "oracle"};
inline constexpr size_t kMaxLines = 400;       // of any source, script or page
inline constexpr size_t kMaxReadmeLines = 40;  // of a README.md of a room of fuzz/
inline constexpr std::string_view kUnlisted = "is in no CMakeLists.txt";

struct Scan {
  std::set<std::string> rooms_seen;
  std::vector<std::string> sources;     // C++, CUDA and C
  std::vector<std::string> files;       // all that were read: sources, scripts, build files and pages
  std::vector<std::string> violations;  // "path: what"
};

// Looks at every file written by hand below `root`, a clone of this repository.
Scan FindViolations(const std::filesystem::path& root);

// "" for a file in no top room.
std::string TopRoomOf(std::string_view path);

}  // namespace plumbline::structure

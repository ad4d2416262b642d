// SPDX-License-Identifier: Apache-2.0
//
// Finds a program or a file of the tree: at the place where it was built, or, on a machine that was
// given a stage (tests/gpu/accept), below the folder that PLUMB_STAGE names.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace plumbline::fuzz::testing {

// `built` is an absolute path: PLUMB_PROGRAM and the like.
inline std::string LocatedProgram(const std::filesystem::path& built) {
  const char* const stage = std::getenv("PLUMB_STAGE");
  return stage == nullptr ? built.string()
                          : (std::filesystem::path(stage) / "bin" / built.filename()).string();
}

// Finds `path`, relative to the root of the tree. A stage holds the corpus.
inline std::string LocatedSource(const std::filesystem::path& path) {
  const char* const stage = std::getenv("PLUMB_STAGE");
  return (std::filesystem::path(stage == nullptr ? PLUMBLINE_SOURCE_DIR : stage) / path).string();
}

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0
//
// A file mapped for reading. Its bytes are paged in as they are read, so it may be larger than memory.
// If another process shortens the file meanwhile, this process ends with SIGBUS, as with any mapping.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace plumbline::fuzz {

class MappedFile {
 public:
  // Returns null, with the reason, for a path that is not a regular file or cannot be opened or mapped.
  static std::unique_ptr<MappedFile> Open(const std::filesystem::path& path, std::string* error);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace plumbline::fuzz

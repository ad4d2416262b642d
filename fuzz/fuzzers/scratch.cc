// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzzers/scratch.h"

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace plumbline::fuzz {
namespace {

struct Folder {
  Folder() {
    std::error_code code;
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = std::filesystem::is_directory(memory, code);
    std::string name =
        ((has_memory ? memory : std::filesystem::temp_directory_path()) / "plumbline-fuzzer-XXXXXX")
            .string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

std::filesystem::path WriteScratch(const std::string& name, std::span<const std::byte> bytes) {
  static const Folder kFolder;
  std::filesystem::path path = kFolder.path / name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fclose(file) != 0) {
    std::abort();
  }
  return path;
}

}  // namespace plumbline::fuzz

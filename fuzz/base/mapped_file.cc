// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fuzz/base/regular_file.h"

namespace plumbline::fuzz {

std::unique_ptr<MappedFile> MappedFile::Open(const std::filesystem::path& path, std::string* error) {
  const int descriptor = OpenRegular(path, O_RDONLY, error);
  if (descriptor < 0) return nullptr;
  struct stat status {};
  void* data = nullptr;
  size_t size = 0;
  if (::fstat(descriptor, &status) == 0) size = static_cast<size_t>(status.st_size);
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int map_error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) {
    *error = path.string() + ": " + std::strerror(map_error);
    return nullptr;
  }
  return std::unique_ptr<MappedFile>(new MappedFile({static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace plumbline::fuzz

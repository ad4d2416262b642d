// SPDX-License-Identifier: Apache-2.0

#include "fuzz/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace plumbline::fuzz {

std::unique_ptr<MappedFile> MappedFile::Open(const std::filesystem::path& path, std::string* error) {
  const auto refuse = [&](const char* what) {
    *error = path.string() + ": " + what;
    return nullptr;
  };
  // Not blocking, so that a pipe is refused below and not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return refuse(std::strerror(errno));
  struct stat status {};
  void* data = nullptr;
  const bool known = ::fstat(descriptor, &status) == 0;
  const int stat_error = errno;
  const bool regular = known && S_ISREG(status.st_mode);
  const size_t size = regular ? static_cast<size_t>(status.st_size) : 0;
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int map_error = errno;
  ::close(descriptor);
  if (!known) return refuse(std::strerror(stat_error));
  if (!regular) return refuse("not a regular file");
  if (data == MAP_FAILED) return refuse(std::strerror(map_error));
  return std::unique_ptr<MappedFile>(new MappedFile({static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace plumbline::fuzz

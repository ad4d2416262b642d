// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/regular_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <regex>
#include <system_error>
#include <utility>

namespace plumbline::fuzz {
namespace {

std::string Named(const std::filesystem::path& path, std::string_view why) {
  return path.string() + ": " + std::string(why);
}

std::string TooLong(uint64_t most) { return "more than " + std::to_string(most) + " bytes"; }

std::string SystemError(const std::string& what, const std::filesystem::path& path) {
  return what + " " + path.string() + ": " + strerrordesc_np(errno);
}

// Reads from here to the end of the file.
bool ReadToEnd(int descriptor, const std::filesystem::path& path, uint64_t most, std::string* text,
               std::string* error) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      *error = Named(path, strerrordesc_np(errno));
      return false;
    }
    if (text->size() + static_cast<size_t>(got) > most) {
      *error = Named(path, TooLong(most));
      return false;
    }
    text->append(buffer, static_cast<size_t>(got));
  }
}

bool WriteAndSync(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return ::fsync(descriptor) == 0;
}

}  // namespace

int OpenRegular(const std::filesystem::path& path, int flags, std::string* error) {
  // The type is asked for before opening as well: opening a device may already do something (rewind a
  // tape, arm a watchdog).
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    *error = Named(path, strerrordesc_np(errno));
    return -1;
  }
  if (!S_ISREG(status.st_mode)) {
    *error = Named(path, "not a regular file");
    return -1;
  }
  // Opened without blocking, in case the name has become a pipe in between.
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    *error = Named(path, strerrordesc_np(errno));
    return -1;
  }
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
  *error = Named(path, "not a regular file");
  ::close(descriptor);
  return -1;
}

std::optional<std::string> ReadRegular(const std::filesystem::path& path, uint64_t most,
                                       std::string* error) {
  const int descriptor = OpenRegular(path, O_RDONLY, error);
  if (descriptor < 0) return std::nullopt;
  std::string text;
  struct stat status {};
  bool whole = ::fstat(descriptor, &status) == 0 && static_cast<uint64_t>(status.st_size) <= most;
  if (!whole) *error = Named(path, TooLong(most));
  // A file may grow while it is read.
  whole = whole && ReadToEnd(descriptor, path, most, &text, error);
  ::close(descriptor);
  return whole ? std::optional(std::move(text)) : std::nullopt;
}

bool WriteWhole(const std::filesystem::path& path, std::span<const std::byte> bytes,
                std::string* error) {
  static std::atomic<uint64_t> counter{0};
  std::filesystem::path temporary = path;
  temporary += "." + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";

  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    *error = SystemError("cannot create", temporary);
    return false;
  }
  bool written = WriteAndSync(descriptor, bytes);
  if (!written) *error = SystemError("cannot write", temporary);
  if (::close(descriptor) != 0 && written) {
    *error = SystemError("cannot close", temporary);
    written = false;
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    *error = SystemError("cannot rename to", path);
    written = false;
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return false;
  }
  // The rename itself must survive a crash too. Best effort: not every file system lets a folder sync.
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return true;
}

void RemoveTemporaries(const std::filesystem::path& folder) {
  static const std::regex kTemporary(R"(.+\.[0-9]+-[0-9]+\.tmp)");
  std::error_code code, ignored;
  std::filesystem::directory_iterator entry(folder, code);
  for (const std::filesystem::directory_iterator end; !code && entry != end; entry.increment(code)) {
    if (std::regex_match(entry->path().filename().string(), kTemporary)) {
      std::filesystem::remove(entry->path(), ignored);
    }
  }
}

}  // namespace plumbline::fuzz

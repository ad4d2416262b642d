// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/json_lines.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "fuzz/base/regular_file.h"

namespace plumbline::fuzz {

std::unique_ptr<JsonLinesReader> JsonLinesReader::Open(const std::filesystem::path& path,
                                                       std::string* error) {
  std::unique_ptr<MappedFile> file = MappedFile::Open(path, error);
  if (!file) return nullptr;
  return std::unique_ptr<JsonLinesReader>(new JsonLinesReader(path, std::move(file)));
}

JsonLinesReader::JsonLinesReader(std::filesystem::path path, std::unique_ptr<MappedFile> file)
    : path_(std::move(path)),
      file_(std::move(file)),
      text_(reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()) {}

std::optional<Json> JsonLinesReader::Next() {
  if (!error_.empty()) return std::nullopt;
  if (begin_ == text_.size()) {
    if (begin_ == 0) error_ = path_.string() + " is empty";
    return std::nullopt;
  }
  const size_t newline = text_.find('\n', begin_);
  const bool ended = newline != std::string_view::npos;
  std::string why = "torn";
  std::optional<Json> line;
  if (ended) line = Json::Parse(text_.substr(begin_, newline - begin_), &why);
  if (line) {
    begin_ = newline + 1;
    ++number_;
    return line;
  }
  const bool last = !ended || newline + 1 == text_.size();
  if (last && number_ > 0) return std::nullopt;
  ++number_;
  Refuse(why);
  return std::nullopt;
}

void JsonLinesReader::Refuse(std::string_view why) {
  error_ = path_.string() + " line " + std::to_string(number_) + ": " + std::string(why);
}

JsonLinesWriter::JsonLinesWriter(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

JsonLinesWriter::~JsonLinesWriter() { close(descriptor_); }

std::unique_ptr<JsonLinesWriter> JsonLinesWriter::Create(const std::filesystem::path& path,
                                                         std::string* error) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    *error = errno == EEXIST ? "" : "cannot create " + path.string() + ": " + strerrordesc_np(errno);
    return nullptr;
  }
  std::unique_ptr<JsonLinesWriter> writer(new JsonLinesWriter(path, descriptor));
  writer->Lock();
  return writer;
}

std::unique_ptr<JsonLinesWriter> JsonLinesWriter::Open(const std::filesystem::path& path,
                                                       std::string* error) {
  const int descriptor = OpenRegular(path, O_WRONLY | O_APPEND, error);
  if (descriptor < 0) return nullptr;
  return std::unique_ptr<JsonLinesWriter>(new JsonLinesWriter(path, descriptor));
}

bool JsonLinesWriter::Lock() {
  // A process that is killed while it starts another one leaves its lock to that one, until that has
  // loaded its own program.
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool JsonLinesWriter::Cut(size_t bytes, std::string* error) {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0) return true;
  *error = "cannot cut the torn line off " + path_.string() + ": " + strerrordesc_np(errno);
  return false;
}

void JsonLinesWriter::Append(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  ssize_t written = 0;
  do {
    written = write(descriptor_, lines.data(), lines.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(lines.size())) {
    failure_ = std::string("cannot write the journal: ") +
               (written < 0 ? strerrordesc_np(errno) : "disk full");
  }
}

std::string JsonLinesWriter::Failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace plumbline::fuzz

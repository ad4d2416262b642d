// SPDX-License-Identifier: Apache-2.0
//
// A journal: a file of JSON values, one a line, that is appended to and never rewritten. Each line is
// written with one write(2), so that a process which dies tears at most the last line. A torn last line
// counts as not written, and is cut off before the next one is appended.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz/base/json.h"
#include "fuzz/base/mapped_file.h"

namespace plumbline::fuzz {

// Reads the lines that the file had when it was opened. It is mapped, so it may be larger than memory.
class JsonLinesReader {
 public:
  // Returns null, with the reason, if `path` is no regular file that can be read.
  static std::unique_ptr<JsonLinesReader> Open(const std::filesystem::path& path, std::string* error);

  // Returns the next line; nullopt after the last whole one, and at a line that is wrong (error()). A
  // file without a whole line is wrong.
  std::optional<Json> Next();
  // Refuses the line that was read last: Next returns nothing more.
  void Refuse(std::string_view why);

  const std::string& error() const { return error_; }  // "PATH line 7: WHY"; empty if there is none
  // These hold once Next has returned nullopt without an error.
  size_t whole() const { return begin_; }                // bytes up to the end of the last whole line
  size_t torn() const { return text_.size() - begin_; }  // bytes after it

 private:
  JsonLinesReader(std::filesystem::path path, std::unique_ptr<MappedFile> file);

  const std::filesystem::path path_;
  const std::unique_ptr<MappedFile> file_;
  const std::string_view text_;
  size_t begin_ = 0;
  int64_t number_ = 0;  // of the line that was read last, from 1
  std::string error_;
};

// Appends lines. Append may be called from any thread.
class JsonLinesWriter {
 public:
  // Creates the file, and locks it. Returns null with an empty reason if it exists.
  static std::unique_ptr<JsonLinesWriter> Create(const std::filesystem::path& path, std::string* error);
  // Opens a file that exists.
  static std::unique_ptr<JsonLinesWriter> Open(const std::filesystem::path& path, std::string* error);
  ~JsonLinesWriter();
  JsonLinesWriter(const JsonLinesWriter&) = delete;
  JsonLinesWriter& operator=(const JsonLinesWriter&) = delete;

  // Returns false if another process has locked the file. The lock ends with this object; it does not
  // keep anyone from appending who does not ask for it.
  bool Lock();
  // Cuts the file off after this many bytes.
  bool Cut(size_t bytes, std::string* error);

  // Appends one line, or several that end with a newline each.
  void Append(const Json& line) { Append(line.Dump() + "\n"); }
  void Append(const std::string& lines);
  // Returns why a line could not be written (a full disk); empty if all lines were. Nothing is written
  // after a failure: it could follow half a line.
  std::string Failure();

 private:
  JsonLinesWriter(std::filesystem::path path, int descriptor);

  const std::filesystem::path path_;
  const int descriptor_;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Reads a record from a file of JSON.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "fuzz/base/fields.h"
#include "fuzz/base/json.h"
#include "fuzz/base/regular_file.h"

namespace plumbline::fuzz {

// nullopt with an error that names the file, and the field below `root`, if it cannot be read, has more
// than `most` bytes, is not JSON or has a wrong field.
template <typename R>
std::optional<R> ReadRecord(const std::filesystem::path& path, uint64_t most, const std::string& root,
                            std::string* error) {
  const std::optional<std::string> text = ReadRegular(path, most, error);
  if (!text) return std::nullopt;
  const std::optional<Json> json = Json::Parse(*text, error);
  std::optional<R> record;
  if (json) record = FromJson<R>(*json, root, error);
  if (!record) *error = path.string() + ": " + *error;
  return record;
}

}  // namespace plumbline::fuzz

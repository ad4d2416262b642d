// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuzz/base/regular_file.h"
#include "fuzz/gpu/production/worker.h"

namespace plumbline::fuzz {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

std::filesystem::path PathOf(const std::filesystem::path& folder) { return folder / "journal.jsonl"; }

const std::string* Text(const Json& line, std::string_view key) {
  const Json* value = line.Find(key);
  return value == nullptr ? nullptr : value->as_string();
}

const int64_t* Number(const Json& line, std::string_view key) {
  const Json* value = line.Find(key);
  return value == nullptr ? nullptr : value->as_int();
}

// Returns false if the line does not belong to this kind of campaign.
bool Take(const Json& line, ProductionJournal* journal) {
  if (journal->header.is_null()) {
    const std::string* format = Text(line, "journal");
    if (format == nullptr || *format != kProductionFormat) return false;
    journal->header = line;
    return true;
  }
  const std::string* event = Text(line, "event");
  const int64_t* index = Number(line, "case");
  if (event == nullptr || index == nullptr) return false;
  if (*event == "begin") {
    const std::string* recipe = Text(line, "recipe");
    journal->open_case = *index;
    journal->open_recipe = recipe != nullptr ? *recipe : "";
    journal->open_stage = "start";
    journal->next = std::max(journal->next, *index + 1);
  } else if (*event == "stage") {
    const std::string* stage = Text(line, "stage");
    if (stage != nullptr) journal->open_stage = *stage;
  } else if (*event == "case" || *event == "lost") {
    journal->cases.push_back(line);
    journal->open_case.reset();
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool IsProductionCampaign(const std::filesystem::path& folder) {
  std::string error;
  const std::optional<std::string> text = ReadRegular(PathOf(folder), kMostBytes, &error);
  if (!text) return false;
  const std::optional<Json> line = Json::Parse(text->substr(0, text->find('\n')), &error);
  if (!line) return false;
  const std::string* format = Text(*line, "journal");
  return format != nullptr && *format == kProductionFormat;
}

std::optional<ProductionJournal> ReadProductionJournal(const std::filesystem::path& folder,
                                                       std::string* error) {
  const std::optional<std::string> text = ReadRegular(PathOf(folder), kMostBytes, error);
  if (!text) return std::nullopt;
  ProductionJournal journal;
  for (size_t begin = 0; begin < text->size();) {
    const size_t newline = text->find('\n', begin);
    if (newline == std::string::npos) {
      // A process that died tore the last line: the next line must not be appended to it.
      if (truncate(PathOf(folder).c_str(), static_cast<off_t>(begin)) != 0) {
        *error =
            PathOf(folder).string() + ": cannot cut off its torn last line: " + std::strerror(errno);
        return std::nullopt;
      }
      break;
    }
    std::string why;
    const std::optional<Json> line = Json::Parse(text->substr(begin, newline - begin), &why);
    if (!line || !Take(*line, &journal)) {
      *error = PathOf(folder).string() + ": byte " + std::to_string(begin) + ": " +
               (why.empty() ? "no line of a production campaign" : why);
      return std::nullopt;
    }
    begin = newline + 1;
  }
  if (journal.header.is_null()) {
    *error = PathOf(folder).string() + " is empty";
    return std::nullopt;
  }
  return journal;
}

bool AppendLine(const std::filesystem::path& folder, const Json& line, std::string* error) {
  const std::filesystem::path path = PathOf(folder);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string text = line.Dump() + "\n";
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) *error = path.string() + ": " + std::strerror(errno);
  if (file >= 0) close(file);
  return written;
}

}  // namespace plumbline::fuzz

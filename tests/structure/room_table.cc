// SPDX-License-Identifier: Apache-2.0
#include "tests/structure/room_table.h"

#include <functional>
#include <regex>
#include <utility>

#include "tests/structure/text.h"

namespace plumbline::structure {
namespace {

constexpr std::string_view kHeader = "| room | may include |";
// The interface of plug-ins, which every room may include.
constexpr std::string_view kPublicHeader = "fuzz/target_abi.h";

std::vector<std::string> InBackticks(const std::string& cell) {
  static const std::regex kName("`([^`]+)`");
  std::vector<std::string> names;
  for (auto it = std::sregex_iterator(cell.begin(), cell.end(), kName); it != std::sregex_iterator();
       ++it) {
    std::string name = (*it)[1];
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
    names.push_back(std::move(name));
  }
  return names;
}

// The cell without names and the signs between them: what is left is not understood.
bool NothingElse(const std::string& cell) {
  static const std::regex kName("`[^`]+`|–|-|,|[ \t]");
  return std::regex_replace(cell, kName, "").empty();
}

}  // namespace

RoomTable::RoomTable(std::string folder, const std::string& text, std::vector<std::string>* violations)
    : folder_(std::move(folder)) {
  bool in_table = false;
  for (const std::string& line : Lines(text)) {
    if (!in_table) {
      in_table = line.starts_with(kHeader);
    } else if (!line.starts_with('|')) {
      break;
    } else if (!line.starts_with("|-") && !line.starts_with("| -") && !line.starts_with("|:")) {
      ReadRow(line, violations);
    }
  }
  if (rows_.empty()) violations->push_back(Page() + ": no table of rooms: " + std::string(kHeader));
  for (const auto& [room, others] : rows_) {
    for (const std::string& other : others) {
      if (!rows_.contains(other) || other == room) {
        violations->push_back(Page() + ": " + room + " may include " + other +
                              ", which is no other room");
      }
    }
  }
}

void RoomTable::ReadRow(const std::string& line, std::vector<std::string>* violations) {
  const size_t second = line.find('|', 1);
  const size_t third = second == line.npos ? line.npos : line.find('|', second + 1);
  const std::vector<std::string> room = InBackticks(line.substr(1, second - 1));
  if (third == line.npos || room.size() != 1 ||
      !NothingElse(line.substr(second + 1, third - second - 1))) {
    violations->push_back(Page() + ": cannot read the row " + line);
    return;
  }
  const std::vector<std::string> others = InBackticks(line.substr(second + 1, third - second - 1));
  if (!rows_.emplace(room[0], std::set<std::string>(others.begin(), others.end())).second) {
    violations->push_back(Page() + ": two rows for " + room[0]);
  }
}

std::string RoomTable::RoomOf(const std::string& file) const {
  if (!file.starts_with(folder_ + "/")) return "";
  std::string room = file.substr(folder_.size() + 1);
  while (!rows_.contains(room)) {
    const size_t slash = room.rfind('/');
    if (slash == room.npos) {
      const bool beside_the_page = file.find('/', folder_.size() + 1) == file.npos;
      return beside_the_page && rows_.contains(".") ? "." : "";
    }
    room.resize(slash);
  }
  return room;
}

std::set<std::string> RoomTable::TopFolders() const {
  std::set<std::string> folders;
  for (const auto& row : rows_) {
    const bool file = row.first.find('.') != row.first.npos;
    if (!file) folders.insert(row.first.substr(0, row.first.find('/')));
  }
  return folders;
}

void RoomTable::Check(const std::vector<std::string>& sources, const std::vector<Include>& includes,
                      std::vector<std::string>* violations) const {
  if (rows_.empty()) return;
  CheckSources(sources, violations);
  CheckIncludes(includes, violations);
  CheckCircles(violations);
}

void RoomTable::CheckSources(const std::vector<std::string>& sources,
                             std::vector<std::string>* violations) const {
  std::set<std::string> seen;
  for (const std::string& name : sources) {
    if (!name.starts_with(folder_ + "/")) continue;
    const std::string room = RoomOf(name);
    seen.insert(room);
    if (room.empty()) violations->push_back(name + ": in no room of " + Page());
  }
  for (const auto& row : rows_) {
    if (!seen.contains(row.first)) {
      violations->push_back(Page() + ": the room " + row.first + " has no source");
    }
  }
}

void RoomTable::CheckIncludes(const std::vector<Include>& includes,
                              std::vector<std::string>* violations) const {
  std::set<std::pair<std::string, std::string>> used;
  for (const auto& [file, header] : includes) {
    const std::string from = RoomOf(file);
    const std::string to = RoomOf(header);
    if (from.empty() || to.empty() || from == to || header == kPublicHeader) continue;
    used.emplace(from, to);
    if (!rows_.at(from).contains(to)) {
      violations->push_back(file + ": includes " + header + ": " + Page() + " does not let " + from +
                            " include " + to);
    }
  }
  for (const auto& [room, others] : rows_) {
    for (const std::string& other : others) {
      if (!used.contains({room, other})) {
        violations->push_back(Page() + ": " + room + " may include " + other + ", and no file does");
      }
    }
  }
}

void RoomTable::CheckCircles(std::vector<std::string>* violations) const {
  std::set<std::string> done;
  std::vector<std::string> path;
  const std::function<bool(const std::string&)> circle = [&](const std::string& room) {
    for (const std::string& before : path) {
      if (before == room) return true;
    }
    if (!rows_.contains(room) || !done.insert(room).second) return false;
    path.push_back(room);
    for (const std::string& other : rows_.at(room)) {
      if (other != room && circle(other)) return true;
    }
    path.pop_back();
    return false;
  };
  for (const auto& row : rows_) {
    path.clear();
    if (!circle(row.first)) continue;
    std::string rooms;
    for (const std::string& room : path) rooms += " " + room;
    violations->push_back(Page() + ": the rooms go in a circle:" + rooms);
    return;
  }
}

}  // namespace plumbline::structure

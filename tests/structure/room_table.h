// SPDX-License-Identifier: Apache-2.0
//
// The rooms of a folder and the rooms each may include, as the folder's README.md says them: a table
// whose header begins `| room | may include |`, one row a room. A room is a folder below the README's
// (`recipe`, `recipe/expand`), `.` for the files beside the README, or one of those files. A folder
// without a row of its own belongs to the nearest row above it, but never to `.`. The second cell lists
// rooms in backticks, or is a dash.

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace plumbline::structure {

struct Include {
  std::string file;    // that includes
  std::string header;  // as spelled, from the root
};

class RoomTable {
 public:
  // Reads the first such table of `text`, the page `folder`/README.md. Violations are appended: no
  // table, a row that cannot be read, a room twice, a cell that names no room.
  RoomTable(std::string folder, const std::string& text, std::vector<std::string>* violations);

  // The room of a file named from the root; "" where it lies outside the folder or in no room.
  std::string RoomOf(const std::string& file) const;

  // Appends what breaks the table: rooms without a source, a source without a room, a circle of rooms,
  // an include that no row lists, a listed room that no file includes.
  void Check(const std::vector<std::string>& sources, const std::vector<Include>& includes,
             std::vector<std::string>* violations) const;

  // The folders directly below the README's that hold rooms.
  std::set<std::string> TopFolders() const;

 private:
  void ReadRow(const std::string& line, std::vector<std::string>* violations);
  void CheckSources(const std::vector<std::string>& sources,
                    std::vector<std::string>* violations) const;
  void CheckIncludes(const std::vector<Include>& includes, std::vector<std::string>* violations) const;
  void CheckCircles(std::vector<std::string>* violations) const;
  std::string Page() const { return folder_ + "/README.md"; }

  std::string folder_;
  std::map<std::string, std::set<std::string>> rows_;
};

}  // namespace plumbline::structure

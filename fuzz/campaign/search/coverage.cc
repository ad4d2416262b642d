// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/coverage.h"

#include <algorithm>
#include <unordered_set>

namespace plumbline::fuzz {

int64_t Coverage::Add(const std::vector<std::string>& cells, bool blind,
                      std::chrono::milliseconds elapsed) {
  ++cases_;
  if (blind) ++blind_;
  int64_t fresh = 0;
  for (const std::string& name : cells) {
    const auto [entry, is_new] = seen_.try_emplace(name);
    fresh += is_new ? 1 : 0;
    if (!blind || entry->second.blind == 3) continue;
    Cell& cell = entry->second;
    if (cell.blind == 0) cell.first = blind_;
    if (cell.blind == 1) cell.second = blind_;
    ++cell.blind;
  }
  if (fresh > 0) {
    newest_case_ = cases_;
    newest_ = std::max(newest_, elapsed);
  }
  return fresh;
}

NewCellChance Coverage::ChanceOfNew() const {
  std::unordered_set<int64_t> once, twice;  // cases, by their rarest cell
  for (const auto& [name, cell] : seen_) {
    if (cell.blind == 1) once.insert(cell.first);
  }
  for (const auto& [name, cell] : seen_) {
    if (cell.blind != 2) continue;
    for (const int64_t which : {cell.first, cell.second}) {
      if (!once.contains(which)) twice.insert(which);
    }
  }
  return GoodTuring(blind_, static_cast<int64_t>(once.size()), static_cast<int64_t>(twice.size()));
}

}  // namespace plumbline::fuzz

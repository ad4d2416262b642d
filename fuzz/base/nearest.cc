// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plumbline::fuzz {
namespace {

constexpr size_t kLongest = 64;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Counts insertions, deletions, changes and exchanges of neighbours (optimal string alignment).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                          d[i - 1][j - 1] + (Lower(a[i - 1]) == Lower(b[j - 1]) ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string Nearest(std::string_view text, std::span<const std::string> names) {
  if (text.empty() || text.size() > kLongest) return {};
  size_t least = (text.size() + 2) / 3 + 1;
  std::string nearest;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const size_t distance = Distance(text, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view text, std::span<const std::string> names) {
  std::string likely = Nearest(text, names);
  int listed = 0;
  for (const std::string& name : names) {
    if (text.size() < 3 || (likely.size() > 0 && listed == 0)) break;
    if (name.find(text) == name.npos || ++listed > 3) continue;
    likely += (listed > 1 ? ", " : "") + name;
  }
  return likely.empty() ? "" : " Did you mean " + likely + "?";
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/features.h"

#include <algorithm>
#include <cmath>

namespace plumbline::fuzz {
namespace {

constexpr int kLowestBin = -12;

std::string VocabPlace(int64_t v) {
  if (v % 64 == 0) return "V0/64";
  if (v % 64 == 1) return "V+1/64";
  if (v % 64 == 63) return "V-1/64";
  return v % 16 == 0 ? "V/16" : "V";
}

std::string ShapeCell(const Recipe& r) {
  return r.regime + " " + VocabPlace(r.v) + (r.h % 16 == 0 ? " H/16" : " H") +
         (r.n == 0   ? " N0"
          : r.n == 1 ? " N1"
                     : " N>1");
}

}  // namespace

std::string TightnessBin(double tightness) {
  if (!(tightness <= 1)) return "over";
  if (tightness <= 0) return "0";
  return "2^" + std::to_string(std::max(std::ilogb(tightness), kLowestBin));
}

std::vector<std::string> CellsOf(const CaseRecord& record, const Recipe& recipe) {
  std::vector<std::string> cells;
  if (record.fault || record.verdict == oracle::Verdict::kSkipped) return cells;
  const std::string in_class = record.case_class.name + " " + record.case_class.dtype + " ";
  for (const auto& [output, counts] : record.by_output) {
    const auto tightness = record.tightness.find(output);
    if (tightness != record.tightness.end()) {
      cells.push_back(in_class + output + " " + TightnessBin(tightness->second));
    } else if (counts[2] + counts[3] > 0) {
      cells.push_back(in_class + output + " vacuous");
    }
  }
  cells.push_back(ShapeCell(recipe));
  for (const std::string& signature : record.signatures) cells.push_back("shows " + signature);
  return cells;
}

}  // namespace plumbline::fuzz

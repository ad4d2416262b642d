// SPDX-License-Identifier: Apache-2.0
//
// The table of mutants, table.txt: operators with one defect each. A defect that is active is its row's
// index. The code of a mutant asks for it by name, `Is("tail-unmasked")`, and does not compile if the
// table has no such row. So a name stands once in the table and once where it is implemented. All lists
// of mutants, the pages, the selftest and the tests are made from this table.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plumbline::fuzz {

// The operator that has the defect.
enum class MutantPath : uint8_t {
  kHost,                 // the one on the CPU, with the dot products of host and of host-hopper; or,
                         // where MutantRow::stretches says so, of host-hopper alone
  kCudaPortable,         // the portable path of the one on CUDA devices, from compute capability 8.0 on
  kCudaHopper,           // its path for compute capability 9.0
  kCudaForwardBackward,  // its portable path, with gradients computed in the forward call
};

struct MutantRow {
  std::string_view name;  // "tail-unmasked"; unique among the mutants of one device
  MutantPath path;
  bool stretches;         // the defect is one of stretches of grad_hidden, which host does not have
  std::string_view hook;  // where it is implemented: "SumTile, Probabilities", "Arguments"
  bool deterministic;     // the same wrong bits every time
  std::string_view what;  // one line: the defect, and in parentheses the bug it is modelled on
  // The exhibit; each host mutant has one.
  std::string_view recipe;     // a recipe's line that shows the defect
  std::string_view signature;  // a finding that it then has, on both kinds of dot products
  std::string_view twin;       // "key=value": with this key changed the mutant has the operator's bits
  std::string_view black_box;  // why a target that declares no contract may do this; empty: it may not
};

namespace table {

inline constexpr std::string_view kText =
#include "fuzz/builtin/mutants/table.txt"
    ;
inline constexpr std::string_view kPaths[] = {"host", "cuda-portable", "cuda-hopper",
                                              "cuda-forward-backward"};
inline constexpr std::string_view kHostHopper = "host-hopper";

// Cuts off what stands before the separator.
constexpr std::string_view Take(std::string_view& text, std::string_view separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + separator.size(), text.size()));
  return taken;
}

constexpr bool BeginsRow(std::string_view line) {
  return !line.empty() && line.front() != ' ' && line.front() != '#';
}

// Cuts off the next row, which there is. Does not compile for a path that there is not.
constexpr MutantRow TakeRow(std::string_view& text) {
  constexpr std::string_view kIndent = "    ", kCell = " | ";
  std::string_view line;
  while (!BeginsRow(line)) line = Take(text, "\n");
  MutantRow row = {};
  row.name = Take(line, kCell);
  const std::string_view on = Take(line, kCell);
  row.stretches = on == kHostHopper;
  const auto* const path = std::ranges::find(kPaths, row.stretches ? kPaths[0] : on);
  if (path == std::end(kPaths)) throw "the table of mutants has no such path";
  row.path = static_cast<MutantPath>(path - kPaths);
  row.hook = Take(line, kCell);
  row.deterministic = line == "same bits";
  std::string_view more[4];  // lines below
  for (std::string_view& one : more) {
    if (text.starts_with(kIndent)) one = Take(text, "\n").substr(kIndent.size());
  }
  row.what = more[0];
  row.recipe = more[1];
  row.signature = Take(more[2], kCell);
  row.twin = more[2];
  row.black_box = more[3];
  return row;
}

constexpr size_t CountRows(std::string_view text) {
  size_t rows = 0;
  while (!text.empty()) rows += BeginsRow(Take(text, "\n")) ? 1 : 0;
  return rows;
}

}  // namespace table

inline constexpr auto kMutants = [] {
  std::array<MutantRow, table::CountRows(table::kText)> rows;
  std::string_view text = table::kText;
  for (MutantRow& row : rows) row = table::TakeRow(text);
  return rows;
}();

// The host's come first, those of both its arithmetics before those of host-hopper alone. Within a
// device the order is that of every list.
inline constexpr std::span<const MutantRow> kHopperMutants = std::span(kMutants).first(
    static_cast<size_t>(std::ranges::count(kMutants, MutantPath::kHost, &MutantRow::path)));
inline constexpr std::span<const MutantRow> kHostMutants = kHopperMutants.first(
    static_cast<size_t>(std::ranges::count(kHopperMutants, false, &MutantRow::stretches)));

inline constexpr int kNoMutant = -1;  // the active defect of an operator without one

// A row by the mutant's name. Does not compile for a name that no mutant of that device has.
template <bool kOnHost>
struct MutantName {
  int row = kNoMutant;
  consteval MutantName(const char* name) {  // NOLINT: Is("tail-unmasked") converts
    for (size_t i = 0; i < kMutants.size(); ++i) {
      const bool on_host = kMutants[i].path == MutantPath::kHost;
      if (on_host == kOnHost && kMutants[i].name == name) row = static_cast<int>(i);
    }
    if (row == kNoMutant) throw "the table of mutants has no such row";
  }
};
using HostMutantName = MutantName<true>;
using CudaMutantName = MutantName<false>;

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Every key of a contract whose term widens a bound is used by the kernel that declares it: with the
// key at its narrowest value that kernel is wrong, and its error is at least half of what the key adds.
// README.md has the shares.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fuzz/honest/reach.h"

namespace plumbline::fuzz {
namespace {

// The cells of a table's row; empty for any other line.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with("| `")) return cells;
  std::istringstream rest(line.substr(2));
  for (std::string cell; std::getline(rest, cell, '|');) {
    while (cell.starts_with(' ')) cell.erase(0, 1);
    while (cell.ends_with(' ')) cell.pop_back();
    cells.push_back(cell);
  }
  return cells;
}

std::string Unquoted(std::string cell) {
  std::erase(cell, '`');
  return cell;
}

// Shares by "key kernel", as README.md has them.
std::map<std::string, double> Stated() {
  std::map<std::string, double> stated;
  std::ifstream page(PLUMBLINE_SOURCE_DIR "/tests/fuzz/honest/README.md");
  for (std::string line; std::getline(page, line);) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.size() < 4) continue;
    std::istringstream keys(cells[0]);
    for (std::string key; keys >> key;) stated[Unquoted(key) + " " + cells[1]] = std::stod(cells[2]);
  }
  return stated;
}

// Fails for a key whose term no kernel needs, for one whose term is more than twice what a kernel that
// commits the declared error loses, and for a bound without the term: the error is then beyond it. A
// share may be 0.02 from the page's: the last bit of the C library's functions differs between
// versions.
TEST(ContractKeys, AreReached) {
  std::map<std::string, double> stated = Stated();
  for (const Key& key : Keys()) {
    const Reach reach = Measure(key);
    const std::string name = key.name + " " + key.kernel;
    EXPECT_EQ(reach.exceeded, 0) << name;
    EXPECT_GT(reach.share, 0) << name << ": right without the key";
    if (key.name != "input_planes") {  // README.md says why
      EXPECT_GE(reach.share, 0.5) << name;
    }
    EXPECT_TRUE(stated.contains(name))
        << name << " is not in README.md: " << reach.share << " " << reach.output;
    EXPECT_NEAR(reach.share, stated[name], 0.02) << name << " " << reach.output;
    stated.erase(name);
  }
  EXPECT_EQ(stated.size(), 0u) << "README.md has " << stated.begin()->first
                               << ", which is not measured";
}

// Fails if what is exact stays where it is under a key that rounds it, or moves elsewhere than the
// kernel that declares it does.
TEST(ContractKeys, MoveWhatIsExact) {
  for (const Key& key : MovingKeys()) {
    const Reach reach = Measure(key);
    EXPECT_EQ(reach.exceeded, 0) << key.name;
    EXPECT_GT(reach.without, 0) << key.name << ": right without the key";
  }
}

// Fails if a key joins the contract and nothing shows that its term is needed.
TEST(ContractKeys, AreAllOfTheDescription) {
  std::set<std::string> measured = {"conventions", "signs"};  // widen no bound
  for (const auto* keys : {&Keys(), &MovingKeys()}) {
    for (const Key& key : *keys) measured.insert(key.name);
  }
  std::set<std::string> described;
  std::ifstream page(PLUMBLINE_SOURCE_DIR "/fuzz/target/DESCRIPTION.md");
  for (std::string line; std::getline(page, line);) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.empty() || !cells[0].starts_with("`contract.")) continue;
    described.insert(Unquoted(cells[0]).substr(9));
  }
  EXPECT_EQ(measured, described);
}

}  // namespace
}  // namespace plumbline::fuzz

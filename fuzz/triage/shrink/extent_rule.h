// SPDX-License-Identifier: Apache-2.0
//
// Finds a rule for the extents at which a problem fails, and tries to refute it before it is stated.
//
// The simplest rule that holds for all tries is fitted: any; one extent alone; from, up to, between; a
// residue. Each form names the extents that would show it to be wrong: the neighbours of a limit; of
// "x mod m is r" eight consecutive members, two for each residue that 2m and 4m would tell apart, and
// non-members with the same residue modulo m divided by a prime. These are tried, and the rule is
// fitted anew until it holds for them. What cannot be tried so far is stated as the list of what failed
// and what passed.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

struct Rule {
  std::string line;  // for people: "V: fails where V mod 8 is 1 (41 tried, 1 to 320)"
  // The same as a word without counts, so that findings of one cause share it: "V=1%8".
  std::string word;
};

// Whether a rule's word says that this extent fails; nullopt for a list of what failed, and for what is
// no word of a rule.
std::optional<bool> FailsAt(std::string_view word, int64_t extent);

using Tried = std::map<int64_t, bool>;  // by extent: failed

struct ExtentAxis {
  std::string name;               // "V"
  int64_t least = 1, most = 320;  // the extents that can be asked about
  // Returns whether the extent fails; nullopt if it cannot be tried (any more).
  std::function<std::optional<bool>(int64_t)> fails;
};

// The most extents that are tried in addition to those that are given.
inline constexpr int64_t kMostRefutations = 96;

// `tried`: at least one of them failed; those that are asked about are added. The range that a line
// names is that of its tries.
Rule FindExtentRule(const ExtentAxis& axis, Tried* tried);

}  // namespace plumbline::fuzz

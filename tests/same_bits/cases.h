// SPDX-License-Identifier: Apache-2.0
//
// The cases on which two revisions are compared: one list, in groups, of which any place can be made.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::same_bits {

enum class Group : uint8_t { kCorpus, kHopperCorpus, kHost, kHopper, kMutants, kHopperMutants };
inline constexpr int kGroups = 6;
inline constexpr std::array<std::string_view, kGroups> kGroupNames = {
    "corpus on host", "corpus on host-hopper", "host", "host-hopper", "mutants", "hopper mutants"};

// How many recipes, drawn as a blind campaign draws them.
struct Sizes {
  int64_t host = 0, hopper = 0;
  int64_t mutant = 0;  // for each, on either arithmetic, beside the cases that show its defect
  uint64_t seed = 0;
};

// Some cases of one target.
struct Segment {
  Group group;
  std::string target;
  int64_t count = 0;
  std::function<std::string(int64_t)> name;            // a recipe's line or a file's name
  std::function<fuzz::OwnedProblem(int64_t)> problem;  // may throw
};

// `corpus`: a folder of case files, every one of which is read here. Throws std::runtime_error where
// one cannot be read. A mutant's own cases are its exhibit (fuzz/builtin/mutants/table.txt) and
// the files of the corpus that name it; a mutant on host-hopper has those of its twin.
// `mutants` names those that are compared.
std::vector<Segment> ListSegments(const std::filesystem::path& corpus, const Sizes& sizes,
                                  const std::function<bool(std::string_view)>& mutants);

}  // namespace plumbline::same_bits

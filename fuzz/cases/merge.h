// SPDX-License-Identifier: Apache-2.0
//
// Selects the cases of several folders that a corpus keeps. The selection is a function of the set of
// cases alone: neither their order nor a second merge of the same cases changes anything.
//
//   one of each       the same problem, target and signature is one case
//   one cause         a bucket keeps only its smallest few on each target: by values, bytes, name
//   small             no file is above kMaxCaseBytes, and all together are not above kMaxCorpusBytes;
//                     the smallest case of every bucket comes before the second smallest of any
//   nothing is lost   cases in the folder that is merged into stay, and so does every regression

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/cases/file.h"

namespace plumbline::fuzz {

struct MergeCase {
  std::filesystem::path path;
  Case c;
  bool stays = false;  // lies in the folder that is merged into
};

struct Dropped {
  std::filesystem::path path;
  std::string why;
};

// Keeps one of each case, in the order of their names. Among equals it keeps the one that stays, else
// the one of the higher state, else the one whose bytes come first. Sets the bucket of each.
std::vector<MergeCase> DropDuplicates(std::vector<MergeCase> cases, std::vector<Dropped>* dropped);

// Returns the cases that are kept, in the order of their names. `cases` must be without duplicates.
std::vector<MergeCase> SelectCases(std::vector<MergeCase> cases, int64_t per_bucket,
                                   std::vector<Dropped>* dropped);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Which cases of several folders a corpus keeps. A function of the set of cases alone: neither the
// order in which they come nor a second merge of the same changes anything.
//
//   one of each       the same problem, target and signature is one case
//   one cause         of a bucket on a target only the smallest few: by values, bytes, name
//   small             no file above kMaxCaseBytes, all together not above kMaxCorpusBytes: the smallest
//   of
//                     every bucket comes before the second smallest of any
//   nothing is lost   what lies in the folder that is merged into stays, and so does every regression

#ifndef PLUMBLINE_FUZZ_CASES_MERGE_H_
#define PLUMBLINE_FUZZ_CASES_MERGE_H_

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

// One of each, in the order of their names. Of equals the one that stays, else that of the higher
// state, else the one whose bytes come first. The bucket of each is set.
std::vector<MergeCase> DropDuplicates(std::vector<MergeCase> cases, std::vector<Dropped>* dropped);

// What is kept, in the order of their names. `cases` are without duplicates.
std::vector<MergeCase> SelectCases(std::vector<MergeCase> cases, int64_t per_bucket,
                                   std::vector<Dropped>* dropped);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASES_MERGE_H_

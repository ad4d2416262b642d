// SPDX-License-Identifier: Apache-2.0
//
// A corpus: the case files below a folder, and limits on their size. fuzz/cases/CASES.md says how they
// are named and merged.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// A minimised case has some 2 KiB; 64 KiB is more than a reviewer reads. corpus/real is exempt.
inline constexpr int64_t kMaxCaseBytes = int64_t{64} << 10;
inline constexpr int64_t kMaxCorpusBytes = int64_t{5} << 20;

// A folder that holds this file is a campaign's (fuzz/campaign/journal.h).
inline constexpr const char* kJournalName = "journal.jsonl";

struct CaseListing {
  std::vector<std::filesystem::path> files;  // sorted, each once
  // Paths that could not be read, one line each, "PATH: why"; a caller shows them.
  std::vector<std::string> unreadable;
  bool empty = false;  // the path is a folder without a case, and `unreadable` says so
  // Says that a campaign stored no finding, which is no fault; empty elsewhere.
  std::string nothing_found;
};

// Lists the case files that a path stands for. A file stands for itself, a folder for every
// *.safetensors below it; links to folders are not followed. In a campaign's folder only findings/ and
// slips/ count, since files in shrinking/ and faults/ are no findings. A valid safetensors file that is
// no case, such as a dump, is passed over; any other fault of a file is reported by ReadCase. A folder
// without a case is unreadable, but for that of a campaign, or its findings/, in which nothing was
// found.
CaseListing ListCases(const std::filesystem::path& path);

}  // namespace plumbline::fuzz

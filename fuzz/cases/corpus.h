// SPDX-License-Identifier: Apache-2.0
//
// A corpus: the case files below a folder, and what they may weigh. corpus/README.md says how they are
// named, kept and reviewed.

#ifndef PLUMBLINE_FUZZ_CASES_CORPUS_H_
#define PLUMBLINE_FUZZ_CASES_CORPUS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// A minimised case has some 2 KiB; 64 KiB is beyond what a reviewer reads. corpus/real is apart.
inline constexpr int64_t kMaxCaseBytes = int64_t{64} << 10;
inline constexpr int64_t kMaxCorpusBytes = int64_t{5} << 20;

// The file by which a folder is known to be a campaign's (fuzz/campaign/journal.h).
inline constexpr const char* kJournalName = "journal.jsonl";

struct CaseListing {
  std::vector<std::filesystem::path> files;  // sorted, each once
  // What could not be looked at, one line each, "PATH: why"; a caller shows them.
  std::vector<std::string> unreadable;
};

// The case files that a path stands for: itself, if it is a file; else every *.safetensors below the
// folder, links to folders not followed. Of a campaign's folder only findings/ and slips/: what lies in
// shrinking/ and faults/ is no finding. A sound safetensors file that is no case, such as a dump among
// cases, is passed over; whatever else is wrong with a file, ReadCase will say. A folder without a case
// is reported.
CaseListing ListCases(const std::filesystem::path& path);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASES_CORPUS_H_

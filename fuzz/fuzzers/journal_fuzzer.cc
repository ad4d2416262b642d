// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fuzz/campaign/journal.h"
#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/fuzzers/scratch.h"

namespace plumbline::fuzz {
int FuzzJournal(std::span<const std::byte> bytes) {
  const std::filesystem::path folder = WriteScratch(kJournalName, bytes).parent_path();
  std::string error;
  JournalState read, opened;
  const bool sound = Journal::Read(folder, &read, &error);
  if (!sound && error.empty()) std::abort();
  // Opening it for appending must give the same result, and cut off at most a torn line.
  if ((Journal::Open(folder, &opened, &error) != nullptr) != sound) std::abort();
  if (!sound) return -1;
  if (opened.done != read.done || opened.sightings.size() != read.sightings.size()) std::abort();
  JournalState again;
  if (!Journal::Read(folder, &again, &error) || !again.note.empty() || again.done != read.done) {
    std::abort();
  }
  return 0;
}

}  // namespace plumbline::fuzz

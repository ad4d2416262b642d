// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "fuzz/campaign/journal.h"
#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/fuzzers/scratch.h"

namespace plumbline::fuzz {
int FuzzJournal(std::span<const std::byte> bytes) {
  const std::filesystem::path folder = WriteScratch(kJournalName, bytes).parent_path();
  std::string error;
  const std::optional<JournalState> read = ReadJournal(folder, &error);
  if (!read && error.empty()) std::abort();
  if (!read) return -1;
  // Opening it for appending must cut off at most a torn line.
  const std::unique_ptr<Journal> journal = Journal::Open(folder, &error);
  const std::unique_ptr<JournalReader> reader = JournalReader::Open(folder, &error);
  if (!journal || !reader) std::abort();
  while (reader->Next(&error)) {
  }
  if (!journal->Continue(*reader, reader->Finish(), &error)) std::abort();
  const std::optional<JournalState> again = ReadJournal(folder, &error);
  if (!again || !again->note.empty() || again->done != read->done ||
      again->sightings.size() != read->sightings.size()) {
    std::abort();
  }
  return 0;
}

}  // namespace plumbline::fuzz

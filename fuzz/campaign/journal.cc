// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <tuple>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mapped_file.h"
#include "fuzz/base/regular_file.h"
#include "fuzz/base/version.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kFormat = 2;
constexpr int64_t kMaxItem = int64_t{1} << 36;
// Items are handed out in order, so a finished one is at most as many ahead of the others as there are
// jobs. A journal that says otherwise must not make the reader allocate gigabytes.
constexpr int64_t kMaxAhead = int64_t{1} << 20;

std::string SystemError(const std::filesystem::path& path, const char* what) {
  return std::string(what) + " " + path.string() + ": " + strerrordesc_np(errno);
}

bool IsItem(const Json& json) {
  return json.as_int() != nullptr && *json.as_int() >= 0 && *json.as_int() < kMaxItem;
}

const int64_t* ItemOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  return member != nullptr && IsItem(*member) ? member->as_int() : nullptr;
}

std::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

const std::string* TextOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  return member != nullptr ? member->as_string() : nullptr;
}

// Builds a JournalState line by line.
class Reader {
 public:
  Reader(JournalState* state, const OnDone& on_done) : state_(*state), on_done_(on_done) {}

  // Returns false if the line is wrong; `why` says how.
  bool Take(const Json& line, std::string* why) {
    if (first_) {
      first_ = false;
      return Header(line, why);
    }
    if (line.Find("start") != nullptr) return Start(line, why);
    if (const Json* done = line.Find("done")) return Done(*done, line, why);
    if (line.Find("kind") != nullptr) return Kind(line, why);
    if (line.Find("phase") != nullptr) return true;  // for human readers only
    if (const Json* sighting = line.Find("sighting")) return Sighted(*sighting, why);
    if (const Json* more = line.Find("more")) return More(*more, why);
    if (const Json* stored = line.Find("stored")) return Stored(*stored, why);
    if (line.Find("fault") != nullptr) {
      ++state_.faults;
      return true;
    }
    if (const int64_t* ms = ItemOf(line, "clock")) return Clock(*ms);
    *why = "unknown kind of line";
    return false;
  }
  bool empty() const { return first_; }
  void Finish() { state_.unfinished.assign(started_.begin(), started_.end()); }

 private:
  bool Header(const Json& line, std::string* why) {
    const Json* format = line.Find("journal");
    const Json* campaign = line.Find("campaign");
    if (format == nullptr || format->as_int() == nullptr || *format->as_int() != kFormat ||
        campaign == nullptr) {
      *why = "not a journal of format " + std::to_string(kFormat);
      return false;
    }
    std::optional<CampaignOptions> options = CampaignOptionsFromJson(*campaign, why);
    if (!options) return false;
    state_.options = *std::move(options);
    return true;
  }

  bool Start(const Json& line, std::string* why) {
    const int64_t* item = ItemOf(line, "start");
    if (item == nullptr) {
      *why = "\"start\" is no item";
      return false;
    }
    if (!state_.Done(*item)) started_.insert(*item);
    return true;
  }

  bool Kind(const Json& line, std::string* why) {
    const int64_t* number = ItemOf(line, "kind");
    const std::string* regime = TextOf(line, "regime");
    const Json* parts = line.Find("class");
    const Json::Array* texts = parts != nullptr ? parts->as_array() : nullptr;
    const bool whole = texts != nullptr && texts->size() == 4 &&
                       std::all_of(texts->begin(), texts->end(),
                                   [](const Json& text) { return text.as_string() != nullptr; });
    if (number == nullptr || regime == nullptr || !whole ||
        *number != static_cast<int64_t>(kinds_.size())) {
      *why = "not a valid \"kind\" line";
      return false;
    }
    kinds_.emplace_back(*regime, CaseClass{.name = *(*texts)[0].as_string(),
                                           .aim = *(*texts)[1].as_string(),
                                           .dtype = *(*texts)[2].as_string(),
                                           .grads = *(*texts)[3].as_string()});
    state_.kinds.emplace(kinds_.back(), *number);
    return true;
  }

  bool Done(const Json& done, const Json& line, std::string* why) {
    const Json::Array* numbers = done.as_array();
    std::optional<CaseRecord> record = CaseRecordFromJson(line);
    if (numbers == nullptr || numbers->size() != 4 || !record ||
        !std::all_of(numbers->begin(), numbers->end(), IsItem) ||
        *(*numbers)[3].as_int() >= static_cast<int64_t>(kinds_.size())) {
      *why = "not a valid \"done\" line";
      return false;
    }
    const int64_t item = *(*numbers)[0].as_int(), ms = *(*numbers)[1].as_int();
    Clock(ms);
    started_.erase(item);
    if (state_.Done(item) && !Planted(HarnessDefect::kCountedTwice)) return true;
    if (item > done_ + kMaxAhead) {
      *why = "item " + std::to_string(item) + " is done, where only " + std::to_string(done_) +
             " have been before";
      return false;
    }
    ++done_;
    if (item >= static_cast<int64_t>(state_.done.size())) {
      state_.done.resize(static_cast<size_t>(std::max<int64_t>(item + 1, 2 * item)));
    }
    state_.done[static_cast<size_t>(item)] = true;
    record->us = *(*numbers)[2].as_int();
    std::tie(record->regime, record->case_class) = kinds_[static_cast<size_t>(*(*numbers)[3].as_int())];
    const std::vector<std::string>& targets = state_.options.targets;
    state_.tallies[targets[static_cast<size_t>(item) % targets.size()]].Add(*record);
    if (on_done_) on_done_(state_, item, *record, std::chrono::milliseconds(ms));
    return true;
  }

  bool Sighted(const Json& line, std::string* why) {
    std::optional<Sighting> sighting = SightingFromJson(line);
    if (!sighting) {
      *why = "not a valid \"sighting\" line";
      return false;
    }
    SightingKey key(sighting->target, sighting->signature);
    state_.sightings.try_emplace(std::move(key), *std::move(sighting));
    return true;
  }

  Sighting* Known(const Json& line, std::string* why) {
    const std::string* target = TextOf(line, "target");
    const std::string* signature = TextOf(line, "signature");
    if (target != nullptr && signature != nullptr) {
      const auto entry = state_.sightings.find({*target, *signature});
      if (entry != state_.sightings.end()) return &entry->second;
    }
    *why = "names no sighting of an earlier line";
    return nullptr;
  }

  bool More(const Json& line, std::string* why) {
    Sighting* sighting = Known(line, why);
    if (sighting == nullptr) return false;
    const std::string* recipe = TextOf(line, "recipe");
    // A case that was repeated after a crash of the supervisor has its line twice.
    if (recipe != nullptr && *recipe != sighting->recipe &&
        std::find(sighting->more.begin(), sighting->more.end(), *recipe) == sighting->more.end()) {
      sighting->more.push_back(*recipe);
    }
    return true;
  }

  bool Stored(const Json& line, std::string* why) {
    Sighting* sighting = Known(line, why);
    if (sighting == nullptr) return false;
    const Json* kept = line.Find("kept");
    sighting->kept = kept != nullptr ? StoredFindingFromJson(*kept) : std::nullopt;
    if (!sighting->kept) *why = "not a valid \"stored\" line";
    return sighting->kept.has_value();
  }

  bool Clock(int64_t ms) {
    state_.elapsed = std::max(state_.elapsed, std::chrono::milliseconds(ms));
    return true;
  }

  JournalState& state_;
  const OnDone& on_done_;
  std::vector<std::pair<std::string, CaseClass>> kinds_;  // by number
  bool first_ = true;
  std::set<int64_t> started_;
  int64_t done_ = 0;
};

// `whole`: the number of bytes up to the end of the last whole line.
bool ParseJournal(const std::filesystem::path& path, std::string_view text, JournalState* state,
                  const OnDone& on_done, size_t* whole, std::string* error) {
  Reader reader(state, on_done);
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t newline = text.find('\n', begin);
    const bool last = newline == std::string_view::npos || newline + 1 == text.size();
    std::string why;
    const std::optional<Json> line = newline == std::string_view::npos
                                         ? std::nullopt
                                         : Json::Parse(text.substr(begin, newline - begin), &why);
    if (!line && last && !reader.empty()) {
      state->note = "the journal's last line was torn and is dropped (" +
                    std::to_string(text.size() - begin) + " bytes)";
      break;
    }
    if (!line || !reader.Take(*line, &why)) {
      *error = path.string() + " line " + std::to_string(number) + ": " + (why.empty() ? "torn" : why);
      return false;
    }
    begin = newline + 1;
  }
  if (reader.empty()) {
    *error = path.string() + " is empty";
    return false;
  }
  reader.Finish();
  *whole = begin;
  return true;
}

}  // namespace

std::unique_ptr<Journal> Journal::Create(const std::filesystem::path& dir,
                                         const CampaignOptions& options, std::string* error) {
  const std::filesystem::path path = dir / kJournalName;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    *error = errno == EEXIST
                 ? dir.string() + " already holds a campaign; go on with it by --resume " + dir.string()
                 : SystemError(path, "cannot create");
    return nullptr;
  }
  std::unique_ptr<Journal> journal(new Journal(descriptor));
  flock(descriptor, LOCK_EX | LOCK_NB);
  Json header;
  header["journal"] = kFormat;
  header["plumb"] = kVersion;
  header["campaign"] = ToJson(options);
  journal->Append(header);
  *error = journal->Failure();
  return error->empty() ? std::move(journal) : nullptr;
}

bool Journal::Read(const std::filesystem::path& dir, JournalState* state, std::string* error,
                   const OnDone& on_done) {
  const std::filesystem::path path = dir / kJournalName;
  // The file is mapped: its pages are released as they are read, for a campaign of any length.
  const std::unique_ptr<MappedFile> file = MappedFile::Open(path, error);
  size_t whole = 0;
  return file && ParseJournal(path, TextOf(*file), state, on_done, &whole, error);
}

std::unique_ptr<Journal> Journal::Open(const std::filesystem::path& dir, JournalState* state,
                                       std::string* error, const OnDone& on_done) {
  const std::filesystem::path path = dir / kJournalName;
  const int descriptor = OpenRegular(path, O_WRONLY | O_APPEND, error);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<Journal> journal(new Journal(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    *error = path.string() + " is in use by another plumb";
    return nullptr;
  }
  const std::unique_ptr<MappedFile> file = MappedFile::Open(path, error);
  size_t whole = 0;
  if (!file || !ParseJournal(path, TextOf(*file), state, on_done, &whole, error)) return nullptr;
  if (whole < file->bytes().size() && !Planted(HarnessDefect::kTornLineKept) &&
      ftruncate(descriptor, static_cast<off_t>(whole)) != 0) {
    *error = SystemError(path, "cannot cut the torn line off");
    return nullptr;
  }
  journal->kinds_ = state->kinds;
  return journal;
}

Journal::~Journal() { close(descriptor_); }

void Journal::Start(int64_t item) {
  if (Planted(HarnessDefect::kStartNotWritten)) return;
  Json line;
  line["start"] = item;
  Append(line);
}

void Journal::Entered(Phase phase, int64_t item) {
  Json line;
  line["phase"] = Name(phase);
  line["item"] = item;
  Append(line);
}

void Journal::Done(int64_t item, std::chrono::milliseconds elapsed, const CaseRecord& record) {
  Json line = ToJson(record);
  const std::lock_guard lock(mutex_);
  const auto [kind, fresh] =
      kinds_.try_emplace({record.regime, record.case_class}, static_cast<int64_t>(kinds_.size()));
  std::string text;
  if (fresh) {
    const CaseClass& c = record.case_class;
    Json meaning;
    meaning["kind"] = kind->second;
    meaning["regime"] = record.regime;
    for (const std::string& part : {c.name, c.aim, c.dtype, c.grads}) meaning["class"].Append(part);
    text = meaning.Dump() + "\n";
  }
  for (const int64_t number : {item, int64_t{elapsed.count()}, record.us, kind->second}) {
    line["done"].Append(number);
  }
  Write(text + line.Dump() + "\n");
}

void Journal::Sighted(const Sighting& sighting) {
  Json line;
  line["sighting"] = ToJson(sighting);
  Append(line);
}

void Journal::More(const SightingKey& key, const std::string& recipe) {
  Json line;
  line["more"]["target"] = key.first;
  line["more"]["signature"] = key.second;
  line["more"]["recipe"] = recipe;
  Append(line);
}

void Journal::Stored(const SightingKey& key, const StoredFinding& kept) {
  Json line;
  line["stored"]["target"] = key.first;
  line["stored"]["signature"] = key.second;
  line["stored"]["kept"] = ToJson(kept);
  Append(line);
}

void Journal::Fault(const std::string& what) {
  Json line;
  line["fault"] = what;
  Append(line);
}

void Journal::Clock(std::chrono::milliseconds elapsed) {
  Json line;
  line["clock"] = int64_t{elapsed.count()};
  Append(line);
}

std::string Journal::Failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Journal::Append(const Json& line) {
  const std::string text = line.Dump() + "\n";
  const std::lock_guard lock(mutex_);
  Write(text);
}

void Journal::Write(const std::string& text) {
  if (!failure_.empty()) return;
  ssize_t written = 0;
  do {
    written = write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  // A part of the line was written: the disk is full, and the other part could follow another writer's
  // line.
  if (written != static_cast<ssize_t>(text.size())) {
    failure_ = std::string("cannot write the journal: ") +
               (written < 0 ? strerrordesc_np(errno) : "disk full");
  }
}

}  // namespace plumbline::fuzz

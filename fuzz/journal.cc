// SPDX-License-Identifier: Apache-2.0
#include "fuzz/journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "fuzz/regular_file.h"
#include "fuzz/text.h"
#include "fuzz/version.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMaxItem = int64_t{1} << 36;
// Items are handed out in order, so one that is done is at most as many ahead of the others as there
// are jobs. A journal that says otherwise must not make the reader ask for gigabytes.
constexpr int64_t kMaxAhead = int64_t{1} << 20;

std::string SystemError(const std::filesystem::path& path, const char* what) {
  return std::string(what) + " " + path.string() + ": " + strerrordesc_np(errno);
}

// Eight hours of campaign write about 10 GB at most; what is larger is no journal.
constexpr uint64_t kMaxJournal = uint64_t{1} << 34;

const int64_t* ItemOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  const int64_t* item = member != nullptr ? member->as_int() : nullptr;
  return item != nullptr && *item >= 0 && *item < kMaxItem ? item : nullptr;
}

const std::string* TextOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  return member != nullptr ? member->as_string() : nullptr;
}

// Builds a JournalState line by line.
class Reader {
 public:
  explicit Reader(JournalState* state) : state_(*state) {}

  // False: `why` says what is wrong with the line.
  bool Take(const Json& line, std::string* why) {
    if (first_) {
      first_ = false;
      return Header(line, why);
    }
    if (line.Find("start") != nullptr) return Start(line, why);
    if (line.Find("done") != nullptr) return Done(line, why);
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

  bool Done(const Json& line, std::string* why) {
    const int64_t* item = ItemOf(line, "done");
    const std::string* target = TextOf(line, "target");
    const int64_t* ms = ItemOf(line, "ms");
    const Json* record = line.Find("r");
    const std::optional<CaseRecord> parsed =
        record != nullptr ? CaseRecordFromJson(*record) : std::nullopt;
    if (item == nullptr || target == nullptr || ms == nullptr || !parsed) {
      *why = "not a valid \"done\" line";
      return false;
    }
    if (*item > done_ + kMaxAhead) {
      *why = "item " + std::to_string(*item) + " is done, where only " + std::to_string(done_) +
             " have been before";
      return false;
    }
    const std::vector<std::string>& targets = state_.options.targets;
    if (std::find(targets.begin(), targets.end(), *target) == targets.end()) {
      *why = "target " + Abridged(Json(*target).Dump()) + " is none of the campaign's";
      return false;
    }
    Clock(*ms);
    started_.erase(*item);
    if (state_.Done(*item)) return true;
    ++done_;
    if (*item >= static_cast<int64_t>(state_.done.size())) {
      state_.done.resize(static_cast<size_t>(std::max<int64_t>(*item + 1, 2 * *item)));
    }
    state_.done[static_cast<size_t>(*item)] = true;
    state_.tallies[*target].Add(*parsed);
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
  bool first_ = true;
  std::set<int64_t> started_;
  int64_t done_ = 0;
};

// `whole`: bytes up to the end of the last whole line.
bool ParseJournal(const std::filesystem::path& path, std::string_view text, JournalState* state,
                  size_t* whole, std::string* error) {
  Reader reader(state);
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

bool Journal::Read(const std::filesystem::path& dir, JournalState* state, std::string* error) {
  const std::filesystem::path path = dir / kJournalName;
  const std::optional<std::string> text = ReadRegular(path, kMaxJournal, error);
  size_t whole = 0;
  return text && ParseJournal(path, *text, state, &whole, error);
}

std::unique_ptr<Journal> Journal::Open(const std::filesystem::path& dir, JournalState* state,
                                       std::string* error) {
  const std::filesystem::path path = dir / kJournalName;
  const int descriptor = OpenRegular(path, O_RDWR | O_APPEND, error);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<Journal> journal(new Journal(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    *error = path.string() + " is in use by another plumb";
    return nullptr;
  }
  std::string text;
  if (!ReadToEnd(descriptor, path, kMaxJournal, &text, error)) return nullptr;
  size_t whole = 0;
  if (!ParseJournal(path, text, state, &whole, error)) return nullptr;
  if (whole < text.size() && ftruncate(descriptor, static_cast<off_t>(whole)) != 0) {
    *error = SystemError(path, "cannot cut the torn line off");
    return nullptr;
  }
  return journal;
}

Journal::~Journal() { close(descriptor_); }

void Journal::Start(int64_t item) {
  Json line;
  line["start"] = item;
  Append(line);
}

void Journal::Done(int64_t item, const std::string& target, std::chrono::milliseconds elapsed,
                   const CaseRecord& record) {
  Json line;
  line["done"] = item;
  line["target"] = target;
  line["ms"] = int64_t{elapsed.count()};
  line["r"] = ToJson(record);
  Append(line);
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
  if (!failure_.empty()) return;
  ssize_t written = 0;
  do {
    written = write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  // Less than the whole line: the disk is full, and a second part could follow another writer's line.
  if (written != static_cast<ssize_t>(text.size())) {
    failure_ = std::string("cannot write the journal: ") +
               (written < 0 ? strerrordesc_np(errno) : "disk full");
  }
}

}  // namespace plumbline::fuzz

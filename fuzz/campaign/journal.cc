// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/journal.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/version.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kFormat = 2;
constexpr int64_t kMaxItem = int64_t{1} << 36;
// Items are handed out in order, so a finished one is at most as many ahead of the others as there are
// jobs. A journal that says otherwise must not make the reader allocate gigabytes.
constexpr int64_t kMaxAhead = int64_t{1} << 20;

bool IsItem(const Json& json) {
  return json.as_int() != nullptr && *json.as_int() >= 0 && *json.as_int() < kMaxItem;
}

const int64_t* ItemOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  return member != nullptr && IsItem(*member) ? member->as_int() : nullptr;
}

const std::string* TextOf(const Json& line, std::string_view key) {
  const Json* member = line.Find(key);
  return member != nullptr ? member->as_string() : nullptr;
}

}  // namespace

std::unique_ptr<JournalReader> JournalReader::Open(const std::filesystem::path& dir,
                                                   std::string* error) {
  std::unique_ptr<JsonLinesReader> lines = JsonLinesReader::Open(dir / kJournalName, error);
  if (!lines) return nullptr;
  std::unique_ptr<JournalReader> reader(new JournalReader(std::move(lines)));
  const std::optional<Json> header = reader->lines_->Next();
  std::string why;
  if (header && !reader->Header(*header, &why)) reader->lines_->Refuse(why);
  *error = reader->lines_->error();
  return error->empty() ? std::move(reader) : nullptr;
}

std::optional<DoneItem> JournalReader::Next(std::string* error) {
  fresh_.reset();
  std::string why;
  while (!fresh_) {
    const std::optional<Json> line = lines_->Next();
    if (!line) break;
    if (!Take(*line, &why)) lines_->Refuse(why);
  }
  *error = lines_->error();
  return std::move(fresh_);
}

JournalState JournalReader::Finish() {
  state_.unfinished.assign(started_.begin(), started_.end());
  if (lines_->torn() > 0) {
    state_.note = "the journal's last line was torn and is dropped (" + std::to_string(lines_->torn()) +
                  " bytes)";
  }
  return std::move(state_);
}

std::optional<JournalState> ReadJournal(const std::filesystem::path& dir, std::string* error) {
  const std::unique_ptr<JournalReader> reader = JournalReader::Open(dir, error);
  if (!reader) return std::nullopt;
  while (reader->Next(error)) {
  }
  return error->empty() ? std::optional(reader->Finish()) : std::nullopt;
}

bool JournalReader::Take(const Json& line, std::string* why) {
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

bool JournalReader::Header(const Json& line, std::string* why) {
  const Json* format = line.Find("journal");
  const Json* campaign = line.Find("campaign");
  const bool known = format != nullptr && format->as_int() != nullptr && *format->as_int() == kFormat;
  if (!known || campaign == nullptr) {
    *why = "not a journal of format " + std::to_string(kFormat) +
           (format != nullptr && !known ? " but of " + format->Dump() : "");
    return false;
  }
  std::optional<CampaignOptions> options = FromJson<CampaignOptions>(*campaign, "campaign", why);
  if (!options) return false;
  state_.options = *std::move(options);
  const Json* plan = line.Find("plan");  // 1 had none
  plan_ = plan != nullptr && plan->as_int() != nullptr ? *plan->as_int() : 1;
  return true;
}

bool JournalReader::Start(const Json& line, std::string* why) {
  const int64_t* item = ItemOf(line, "start");
  if (item == nullptr) {
    *why = "\"start\" is no item";
    return false;
  }
  if (!state_.Done(*item)) started_.insert(*item);
  return true;
}

bool JournalReader::Kind(const Json& line, std::string* why) {
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

bool JournalReader::Done(const Json& done, const Json& line, std::string* why) {
  const Json::Array* numbers = done.as_array();
  std::optional<CaseRecord> record = FromJson<CaseRecord>(line, "record", why);
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
  if (item > count_ + kMaxAhead) {
    *why = "item " + std::to_string(item) + " is done, where only " + std::to_string(count_) +
           " have been before";
    return false;
  }
  ++count_;
  if (item >= static_cast<int64_t>(state_.done.size())) {
    state_.done.resize(static_cast<size_t>(std::max<int64_t>(item + 1, 2 * item)));
  }
  state_.done[static_cast<size_t>(item)] = true;
  record->us = *(*numbers)[2].as_int();
  std::tie(record->regime, record->case_class) = kinds_[static_cast<size_t>(*(*numbers)[3].as_int())];
  const std::vector<std::string>& targets = state_.options.targets;
  const std::string& target = targets[static_cast<size_t>(item) % targets.size()];
  state_.tallies[target].Add(*record);
  state_.reach[target].Add(*record);
  fresh_ = DoneItem{item, *std::move(record), std::chrono::milliseconds(ms)};
  return true;
}

bool JournalReader::Sighted(const Json& line, std::string* why) {
  std::optional<Sighting> sighting = FromJson<Sighting>(line, "sighting", why);
  if (!sighting) {
    *why = "not a valid \"sighting\" line";
    return false;
  }
  SightingKey key(sighting->target, sighting->signature);
  state_.sightings.try_emplace(std::move(key), *std::move(sighting));
  return true;
}

Sighting* JournalReader::Known(const Json& line, std::string* why) {
  const std::string* target = TextOf(line, "target");
  const std::string* signature = TextOf(line, "signature");
  if (target != nullptr && signature != nullptr) {
    const auto entry = state_.sightings.find({*target, *signature});
    if (entry != state_.sightings.end()) return &entry->second;
  }
  *why = "names no sighting of an earlier line";
  return nullptr;
}

bool JournalReader::More(const Json& line, std::string* why) {
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

bool JournalReader::Stored(const Json& line, std::string* why) {
  Sighting* sighting = Known(line, why);
  if (sighting == nullptr) return false;
  const Json* kept = line.Find("kept");
  sighting->kept = kept != nullptr ? FromJson<StoredFinding>(*kept, "kept", why) : std::nullopt;
  bool valid = sighting->kept.has_value();
  if (const Json* parts = line.Find("parts"); parts != nullptr && parts->as_object() != nullptr) {
    for (const auto& [signature, part_of] : *parts->as_object()) {
      const auto part = state_.sightings.find({sighting->target, signature});
      valid = valid && part != state_.sightings.end() && part_of.as_string() != nullptr;
      if (valid) part->second.part_of = *part_of.as_string();
    }
  }
  if (!valid) *why = "not a valid \"stored\" line";
  return valid;
}

bool JournalReader::Clock(int64_t ms) {
  state_.elapsed = std::max(state_.elapsed, std::chrono::milliseconds(ms));
  return true;
}

std::string Journal::Taken(const std::filesystem::path& dir) {
  std::error_code code;
  if (!std::filesystem::exists(dir / kJournalName, code)) return {};
  return dir.string() + " already holds a campaign: go on with it by `plumb fuzz --resume " +
         dir.string() + "`, or name another --out";
}

std::unique_ptr<Journal> Journal::Create(const std::filesystem::path& dir,
                                         const CampaignOptions& options, std::string* error) {
  std::unique_ptr<JsonLinesWriter> file = JsonLinesWriter::Create(dir / kJournalName, error);
  if (!file) {
    if (error->empty()) *error = Taken(dir);
    return nullptr;
  }
  file->Append(Json::Object{
      {"journal", kFormat}, {"plumb", kVersion}, {"plan", kPlan}, {"campaign", ToJson(options)}});
  *error = file->Failure();
  return error->empty() ? std::unique_ptr<Journal>(new Journal(std::move(file))) : nullptr;
}

std::unique_ptr<Journal> Journal::Open(const std::filesystem::path& dir, std::string* error) {
  std::unique_ptr<JsonLinesWriter> file = JsonLinesWriter::Open(dir / kJournalName, error);
  if (!file) return nullptr;
  if (file->Lock()) return std::unique_ptr<Journal>(new Journal(std::move(file)));
  *error = (dir / kJournalName).string() + " is in use by another plumb";
  return nullptr;
}

bool Journal::Continue(const JournalReader& read, const JournalState& state, std::string* error) {
  kinds_ = state.kinds;
  return Planted(HarnessDefect::kTornLineKept) || file_->Cut(read.whole(), error);
}

void Journal::Start(int64_t item) {
  if (Planted(HarnessDefect::kStartNotWritten)) return;
  file_->Append(Json::Object{{"start", item}});
}

void Journal::Entered(Phase phase, int64_t item) {
  file_->Append(Json::Object{{"phase", Name(phase)}, {"item", item}});
}

void Journal::Done(int64_t item, std::chrono::milliseconds elapsed, const CaseRecord& record) {
  Json line = ToJson(record);
  const std::lock_guard lock(mutex_);
  const auto [kind, fresh] =
      kinds_.try_emplace({record.regime, record.case_class}, static_cast<int64_t>(kinds_.size()));
  std::string text;
  if (fresh) {
    const CaseClass& c = record.case_class;
    const Json meaning = Json::Object{{"kind", kind->second},
                                      {"regime", record.regime},
                                      {"class", Json::Array{c.name, c.aim, c.dtype, c.grads}}};
    text = meaning.Dump() + "\n";
  }
  line["done"] = Json::Array{item, int64_t{elapsed.count()}, record.us, kind->second};
  file_->Append(text + line.Dump() + "\n");
}

void Journal::Sighted(const Sighting& sighting) {
  file_->Append(Json::Object{{"sighting", ToJson(sighting)}});
}

void Journal::More(const SightingKey& key, const std::string& recipe) {
  const auto& [target, signature] = key;
  const Json more = Json::Object{{"target", target}, {"signature", signature}, {"recipe", recipe}};
  file_->Append(Json::Object{{"more", more}});
}

void Journal::Stored(const SightingKey& key, const StoredFinding& kept, const Parts& parts) {
  const auto& [target, signature] = key;
  Json stored = Json::Object{{"target", target}, {"signature", signature}, {"kept", ToJson(kept)}};
  for (const auto& [part, part_of] : parts) stored["parts"][part] = part_of;
  file_->Append(Json::Object{{"stored", stored}});
}

void Journal::Fault(const std::string& what) { file_->Append(Json::Object{{"fault", what}}); }

void Journal::Clock(std::chrono::milliseconds elapsed) {
  file_->Append(Json::Object{{"clock", int64_t{elapsed.count()}}});
}

}  // namespace plumbline::fuzz

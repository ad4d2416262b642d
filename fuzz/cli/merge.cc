// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/cases/corpus.h"
#include "fuzz/cases/merge.h"
#include "fuzz/cases/name.h"
#include "fuzz/cli/commands.h"
#include "fuzz/triage/replay.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

class Merger {
 public:
  Merger(const MergeCommand& command, const Console& console)
      : command_(command),
        console_(console),
        runners_(console.worker_program, console.interrupt, command.case_timeout) {}

  ExitStatus Run();

 private:
  void ReadFolder(const fs::path& folder, bool stays);
  void Judge(std::vector<MergeCase>* cases);
  // Returns true if the case is kept, as far as its own replay can tell. Changes its state by the
  // replay.
  bool Keep(MergeCase* merged, const Replay& replay);
  void Write(const MergeCase& merged);
  void Report();

  const MergeCommand& command_;
  const Console& console_;
  Runners runners_;
  std::set<fs::path> seen_;
  std::vector<MergeCase> cases_;
  std::vector<Dropped> dropped_;
  Json kept_ = Json(Json::Array{});
  int64_t judged_ = 0, failing_ = 0;
  bool incomplete_ = false, unavailable_ = false, interrupted_ = false, fault_ = false;
};

void Merger::ReadFolder(const fs::path& folder, bool stays) {
  const CaseListing listing = ListCases(folder);
  for (const std::string& line : listing.unreadable) console_.Complain(line);
  incomplete_ = incomplete_ || !listing.unreadable.empty();
  for (const fs::path& file : listing.files) {
    std::error_code code;
    const fs::path canonical = fs::weakly_canonical(file, code);
    if (!seen_.insert(code ? file : canonical).second) continue;
    std::string error;
    std::optional<Case> c = ReadCase(file, &error);
    if (!c) {
      console_.Complain(error);
      incomplete_ = true;
      continue;
    }
    if (!command_.target.empty() && !stays && c->target != command_.target) {
      c->target = command_.target;
      c->state = CaseState::kNew;  // the result of another target says nothing about this one
    }
    cases_.push_back({file, *std::move(c), stays});
  }
}

bool Merger::Keep(MergeCase* merged, const Replay& replay) {
  Case& c = merged->c;
  const bool fresh = c.state == CaseState::kNew;
  if (replay.what == Replayed::kFault) {
    console_.Complain(merged->path.string() + ": " + replay.detail);
    fault_ = true;
    return true;
  }
  if (fresh && replay.what == Replayed::kFailsDifferently) {
    c.finding = replay.result.findings.front();
    c.bucket = BucketOf(c.problem, c.finding);
    console_.Say("now: " + merged->path.string() + ": " + replay.detail + "\n");
    return true;
  }
  const CaseState before = c.state;
  if (Advance(&c, replay)) {
    console_.Say("state: " + merged->path.string() + ": " + std::string(Name(before)) + " -> " +
                 std::string(Name(c.state)) + "\n");
  }
  const bool fails = replay.what == Replayed::kFails || replay.what == Replayed::kFailsOnce;
  if (!fresh || fails || merged->stays) return true;
  dropped_.push_back(
      {merged->path, std::string(Name(replay.what)) + " on " + c.target + ": " + replay.detail});
  return false;
}

void Merger::Judge(std::vector<MergeCase>* cases) {
  std::vector<MergeCase> kept;
  for (MergeCase& merged : *cases) {
    const Replay replay = ReplayCase(merged.c, &runners_.For(merged.c.target));
    if (replay.kind == Judged::Kind::kInterrupted) {
      interrupted_ = true;
      return;
    }
    bool keep = true;
    if (replay.kind == Judged::Kind::kUnavailable) {
      console_.Complain("not judged, kept as it is: " + merged.path.string() + ": " + replay.error);
      unavailable_ = true;
    } else {
      ++judged_;
      failing_ += replay.result.findings.empty() ? 0 : 1;
      keep = Keep(&merged, replay);
    }
    if (keep) kept.push_back(std::move(merged));
  }
  *cases = std::move(kept);
}

void Merger::Write(const MergeCase& merged) {
  const fs::path folder = merged.stays ? merged.path.parent_path() : command_.out;
  const fs::path file = folder / CaseFileName(merged.c);
  Json entry;
  entry["file"] = file.string();
  entry["from"] = merged.path.string();
  entry["bucket"] = merged.c.bucket.key;
  entry["state"] = Name(merged.c.state);
  kept_.Append(std::move(entry));
  std::string error;
  // A second merge writes nothing: dates in a file change with its state, not with every replay.
  const std::optional<Case> there = ReadCase(file, &error);
  const bool same = there && *there == merged.c;
  if (!same && !WriteCase(file, merged.c, &error)) {
    console_.Complain(error);
    fault_ = true;
    return;
  }
  std::error_code code;
  if (merged.stays && merged.path != file) fs::remove(merged.path, code);
  const std::string how = merged.stays ? merged.path == file ? "stays" : "renamed" : "kept";
  console_.Say(how + ": " + file.string() +
               (how == "stays" ? "" : " (from " + merged.path.string() + ")") + ": " +
               std::string(Name(merged.c.state)) + ", " + std::to_string(ValueCount(merged.c.problem)) +
               " values, bucket " + merged.c.bucket.key + "\n");
}

void Merger::Report() {
  std::sort(dropped_.begin(), dropped_.end(),
            [](const Dropped& a, const Dropped& b) { return a.path < b.path; });
  for (const Dropped& d : dropped_) console_.Say("not kept: " + d.path.string() + ": " + d.why + "\n");
}

ExitStatus Merger::Run() {
  std::error_code code;
  fs::create_directories(command_.out, code);
  if (code || !fs::is_directory(command_.out, code)) {
    console_.Complain("cannot create " + command_.out.string() + ": " +
                      (code ? code.message() : "there is a file of this name"));
    return console_.Finish(ExitStatus::kUsage, 0, 0);
  }
  // An empty output folder is no error.
  if (!ListCases(command_.out).files.empty()) ReadFolder(command_.out, true);
  for (const fs::path& path : command_.paths) {
    if (!fs::equivalent(path, command_.out, code)) ReadFolder(path, false);
  }
  std::vector<MergeCase> cases = DropDuplicates(std::move(cases_), &dropped_);
  Judge(&cases);
  if (interrupted_) return console_.Finish(ExitStatus::kInterrupted, judged_, failing_);
  // A case that is kept under another finding may have become equal to another case.
  cases = SelectCases(DropDuplicates(std::move(cases), &dropped_), command_.per_bucket, &dropped_);
  for (const MergeCase& merged : cases) Write(merged);
  Report();
  Json report;
  report["kept"] = std::move(kept_);
  report["not_kept"] = Json(Json::Array{});
  for (const Dropped& d : dropped_) {
    Json entry;
    entry["file"] = d.path.string();
    entry["why"] = d.why;
    report["not_kept"].Append(std::move(entry));
  }
  console_.Say(std::to_string(cases.size()) + " kept, " + std::to_string(dropped_.size()) +
               " not kept\n");
  // The cases of a corpus are kept because they fail, so their failing is no finding.
  const ExitStatus status = Gravest({{ExitStatus::kFault, fault_},
                                     {ExitStatus::kUnavailable, unavailable_},
                                     {ExitStatus::kUsage, incomplete_}});
  return console_.Finish(status, judged_, failing_, std::move(report));
}

}  // namespace

ExitStatus CommandMerge(const MergeCommand& command, const Console& console) {
  return Merger(command, console).Run();
}

}  // namespace plumbline::fuzz

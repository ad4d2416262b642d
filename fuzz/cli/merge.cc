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
#include "fuzz/cli/command_line.h"
#include "fuzz/triage/replay.h"

namespace plumbline::fuzz {
namespace {

struct MergeCommand {
  std::vector<std::filesystem::path> paths;  // as above
  std::filesystem::path out;
  std::string target;  // empty: the target that each case names
  int64_t per_bucket = 3;
  std::chrono::milliseconds case_timeout{20'000};
};

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
  bool Judge(std::vector<MergeCase>* cases);  // false: interrupted
  void Complain(ExitStatus status, const std::string& why) {
    console_.Complain(why);
    status_ = Gravest({status_, status});
  }
  // Returns true if the case is kept, as far as its own replay can tell. Changes its state by the
  // replay.
  bool Keep(MergeCase* merged, const Replay& replay);
  void Write(const MergeCase& merged);

  const MergeCommand& command_;
  const Console& console_;
  Runners runners_;
  std::set<fs::path> seen_;
  std::vector<MergeCase> cases_;
  std::vector<Dropped> dropped_;
  Json kept_ = Json(Json::Array{});
  Counts counts_;
  ExitStatus status_ = ExitStatus::kClean;
};

void Merger::ReadFolder(const fs::path& folder, bool stays) {
  const CaseListing listing = ListCases(folder);
  for (const std::string& line : listing.unreadable) Complain(ExitStatus::kUsage, line);
  if (!listing.nothing_found.empty()) console_.Say(listing.nothing_found + ": nothing to merge\n");
  for (const fs::path& file : listing.files) {
    std::error_code code;
    const fs::path canonical = fs::weakly_canonical(file, code);
    if (!seen_.insert(code ? file : canonical).second) continue;
    std::string error;
    std::optional<Case> c = ReadCase(file, &error);
    if (!c) {
      Complain(ExitStatus::kUsage, error);
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
    Complain(ExitStatus::kFault, merged->path.string() + ": " + replay.detail);
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

bool Merger::Judge(std::vector<MergeCase>* cases) {
  std::vector<MergeCase> kept;
  for (MergeCase& merged : *cases) {
    const Replay replay = ReplayCase(merged.c, &runners_.For(merged.c.target));
    if (replay.kind == Judged::Kind::kInterrupted) return false;
    bool keep = true;
    if (replay.kind == Judged::Kind::kUnavailable) {
      Complain(ExitStatus::kUnavailable,
               "not judged, kept as it is: " + merged.path.string() + ": " + replay.error);
    } else {
      counts_.Add(replay.result);
      keep = Keep(&merged, replay);
    }
    if (keep) kept.push_back(std::move(merged));
  }
  *cases = std::move(kept);
  return true;
}

void Merger::Write(const MergeCase& merged) {
  const fs::path folder = merged.stays ? merged.path.parent_path() : command_.out;
  const fs::path file = folder / CaseFileName(merged.c);
  kept_.Append(Json::Object{{"file", file.string()},
                            {"from", merged.path.string()},
                            {"bucket", merged.c.bucket.key},
                            {"state", Name(merged.c.state)}});
  std::string error;
  // A second merge writes nothing: dates in a file change with its state, not with every replay.
  const std::optional<Case> there = ReadCase(file, &error);
  const bool same = there && *there == merged.c;
  if (!same && !WriteCase(file, merged.c, &error)) return Complain(ExitStatus::kFault, error);
  std::error_code code;
  if (merged.stays && merged.path != file) fs::remove(merged.path, code);
  const std::string how = merged.stays ? merged.path == file ? "stays" : "renamed" : "kept";
  console_.Say(how + ": " + file.string() +
               (how == "stays" ? "" : " (from " + merged.path.string() + ")") + ": " +
               std::string(Name(merged.c.state)) + ", " + std::to_string(ValueCount(merged.c.problem)) +
               " values, bucket " + merged.c.bucket.key + "\n");
}

ExitStatus Merger::Run() {
  std::error_code code;
  const bool created = fs::create_directories(command_.out, code);
  if (code || !fs::is_directory(command_.out, code)) {
    console_.Complain("cannot create " + command_.out.string() + ": " +
                      (code ? code.message() : "there is a file of this name"));
    return console_.Finish(ExitStatus::kUsage);
  }
  // An empty output folder is no error.
  if (!ListCases(command_.out).files.empty()) ReadFolder(command_.out, true);
  for (const fs::path& path : command_.paths) {
    if (!fs::equivalent(path, command_.out, code)) ReadFolder(path, false);
  }
  std::vector<MergeCase> cases = DropDuplicates(std::move(cases_), &dropped_);
  if (!Judge(&cases)) return console_.Finish(ExitStatus::kInterrupted, counts_);
  // A case that is kept under another finding may have become equal to another case.
  cases = SelectCases(DropDuplicates(std::move(cases), &dropped_), command_.per_bucket, &dropped_);
  for (const MergeCase& merged : cases) Write(merged);
  if (created && cases.empty()) fs::remove(command_.out, code);
  Json report = Json::Object{{"kept", std::move(kept_)}, {"not_kept", Json::Array{}}};
  std::sort(dropped_.begin(), dropped_.end(),
            [](const Dropped& a, const Dropped& b) { return a.path < b.path; });
  for (const Dropped& d : dropped_) {
    console_.Say("not kept: " + d.path.string() + ": " + d.why + "\n");
    report["not_kept"].Append(Json::Object{{"file", d.path.string()}, {"why", d.why}});
  }
  console_.Say(std::to_string(cases.size()) + " kept, " + std::to_string(dropped_.size()) +
               " not kept\n");
  // The cases of a corpus are kept because they fail, so their failing is no finding.
  return console_.Finish(status_, counts_, std::move(report));
}

}  // namespace

void AddMerge(CommandLine* line) {
  auto options = std::make_shared<MergeCommand>();
  CLI::App* sub = line->Add("merge", "Merge the cases of campaigns and corpora into one corpus",
                            "plumb merge hunt other-hunt --out corpus",
                            [=] { return Merger(*options, line->console).Run(); });
  sub->add_option("path", options->paths, "folders of campaigns or cases, or case files")->required();
  sub->add_option("--out", options->out, "the corpus; what lies in it stays")->required();
  sub->add_option("--target", options->target, "instead of the target that each case names");
  sub->add_option("--per-bucket", options->per_bucket, "cases kept of one cause on one target [3]")
      ->check(CLI::PositiveNumber);
  AddCaseTimeout(sub, &options->case_timeout);
  AddPython(sub);
}

}  // namespace plumbline::fuzz

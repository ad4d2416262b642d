// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fuzz/base/regular_file.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/name.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/junit.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/triage/replay.h"

namespace plumbline::fuzz {
namespace {

struct ReplayCommand {
  std::vector<std::filesystem::path> paths;  // files, or folders, which stand for every case below them
  std::string target;                        // empty: the target that each case names
  std::chrono::milliseconds case_timeout{20'000};
  bool update = false;          // states that change (fuzz/cases/state.h) are written into the files
  std::filesystem::path junit;  // empty: none is written
};

constexpr std::string_view kNotJudged = "not judged";

// Replays one case after another, prints each, and adds it to the report and the JUnit results.
class Session {
 public:
  Session(const ReplayCommand& command, const Console& console)
      : command_(command),
        console_(console),
        runners_(console.worker_program, console.interrupt, command.case_timeout) {
    report_["results"] = Json(Json::Array{});
  }

  void Run(const std::filesystem::path& file);
  // Reports a path that could not be read.
  void Refuse(const std::string& line) {
    Complain(ExitStatus::kUsage, line);
    junit_.push_back({"plumb", line.substr(0, line.find(": ")), JUnitCase::Outcome::kError, line, 0});
  }
  bool interrupted() const { return interrupted_; }
  ExitStatus Finish();

 private:
  void Complain(ExitStatus status, const std::string& why) {
    console_.Complain(why);
    status_ = Gravest({status_, status});
  }
  void Move(const std::filesystem::path& file, const std::string& target, const Replay& replay, Case c,
            Json* entry);

  const ReplayCommand& command_;
  const Console& console_;
  Runners runners_;
  Json report_;
  std::vector<JUnitCase> junit_;
  Counts counts_;
  int64_t movable_ = 0;
  ExitStatus status_ = ExitStatus::kClean;
  bool interrupted_ = false;
};

JUnitCase::Outcome JUnitOutcome(const Replay& replay) {
  switch (replay.what) {
    case Replayed::kFault:
      return JUnitCase::Outcome::kError;
    case Replayed::kSkipped:
    case Replayed::kVacuous:
      return JUnitCase::Outcome::kSkipped;
    case Replayed::kPasses:
      return JUnitCase::Outcome::kPassed;
    case Replayed::kFails:
    case Replayed::kFailsOnce:
    case Replayed::kFailsDifferently:
      break;
  }
  return JUnitCase::Outcome::kFailed;
}

void Session::Run(const std::filesystem::path& file) {
  std::string error;
  std::optional<Case> c = ReadCase(file, &error);
  if (!c) return Refuse(error);
  const std::string target = command_.target.empty() ? c->target : command_.target;
  const Replay replay = ReplayCase(*c, &runners_.For(target));
  if (replay.kind == Judged::Kind::kInterrupted) {
    interrupted_ = true;
    status_ = Gravest({status_, ExitStatus::kInterrupted});
    return;
  }
  Json entry = Json::Object{{"file", file.string()},
                            {"target", target},
                            {"was", c->finding.Signature()},
                            {"state", Name(c->state)}};
  if (replay.kind == Judged::Kind::kUnavailable) {
    Complain(ExitStatus::kUnavailable,
             std::string(kNotJudged) + ": " + file.string() + " on " + target + ": " + replay.error);
    entry["outcome"] = kNotJudged;
    entry["error"] = replay.error;
    report_["results"].Append(std::move(entry));
    junit_.push_back({target, file.filename().string(), JUnitCase::Outcome::kError, replay.error, 0});
    return;
  }
  counts_.Add(replay.result);
  const bool fails = !replay.result.findings.empty();
  status_ = Gravest({status_, replay.what == Replayed::kFault ? ExitStatus::kFault
                              : fails                         ? StatusOf(replay.result.findings)
                                                              : ExitStatus::kClean});
  const std::string word(Name(replay.what));
  console_.Say(word + ": " + file.string() + " on " + target + ": " + replay.detail + "\n");
  junit_.push_back({target, file.filename().string(), JUnitOutcome(replay), word + ": " + replay.detail,
                    replay.seconds});
  entry["outcome"] = word;
  entry["result"] = ToJson(replay.result);
  // A run on another target says nothing about the state.
  if (target == c->target) Move(file, target, replay, *std::move(c), &entry);
  report_["results"].Append(std::move(entry));
}

void Session::Move(const std::filesystem::path& file, const std::string& target, const Replay& replay,
                   Case c, Json* entry) {
  const CaseState before = c.state;
  if (CameBack(before, replay.what)) {
    console_.Say("    it came back: a " + std::string(Name(before)) + " case of " + target +
                 " must not fail\n");
  }
  if (!Advance(&c, replay)) return;
  (*entry)["next_state"] = Name(c.state);
  const std::string move = std::string(Name(before)) + " -> " + std::string(Name(c.state));
  if (!command_.update) {
    ++movable_;
    console_.Say("    state: " + move + " (written with --update)\n");
    return;
  }
  std::string error;
  if (WriteCase(file, c, &error)) {
    console_.Say("    state: " + move + ", written\n");
  } else {
    Complain(ExitStatus::kFault, error);
  }
}

ExitStatus Session::Finish() {
  if (movable_ > 0) {
    console_.Say(std::to_string(movable_) + (movable_ == 1 ? " case has" : " cases have") +
                 " another state now; --update writes it\n");
  }
  if (!command_.junit.empty()) {
    const std::string xml = JUnitXml("plumb replay", junit_);
    std::string error;
    if (!WriteWhole(command_.junit, std::as_bytes(std::span(xml)), &error)) {
      Complain(ExitStatus::kFault, error);
    }
  }
  return console_.Finish(status_, counts_, std::move(report_));
}

ExitStatus CommandReplay(const ReplayCommand& command, const Console& console) {
  Session session(command, console);
  for (const std::filesystem::path& path : command.paths) {
    const CaseListing listing = ListCases(path);
    for (const std::string& line : listing.unreadable) session.Refuse(line);
    if (!listing.nothing_found.empty()) console.Say(listing.nothing_found + ": nothing to replay\n");
    for (const std::filesystem::path& file : listing.files) {
      if (!session.interrupted()) session.Run(file);
    }
  }
  return session.Finish();
}

}  // namespace

void AddReplay(CommandLine* line) {
  auto options = std::make_shared<ReplayCommand>();
  CLI::App* sub = line->Add("replay", "Run stored cases and say whether they still fail",
                            "plumb replay corpus --target host",
                            [=] { return CommandReplay(*options, line->console); });
  sub->add_option("path", options->paths, "case files, or folders of them")->required();
  sub->add_option("--target", options->target, "instead of the target that each case names");
  AddCaseTimeout(sub, &options->case_timeout);
  AddPython(sub);
  sub->add_flag("--update", options->update,
                "write states that changed: new, confirmed, fixed, regression (corpus/README.md)");
  sub->add_option("--junit", options->junit, "write the results to this file as JUnit XML");
}

}  // namespace plumbline::fuzz

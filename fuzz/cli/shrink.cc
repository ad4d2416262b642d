// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <system_error>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/triage/pursuit.h"
#include "fuzz/triage/replay.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

struct ShrinkCommand {
  std::vector<std::filesystem::path> paths;  // files, or folders, which stand for every case below them
  // The output file if there is one case, the output folder if there are several. If empty, each case
  // is written next to its input, named by its content.
  std::filesystem::path out;
  std::string target;  // empty: the one that the case names
  std::chrono::milliseconds time{30'000};
  std::optional<int64_t> tries;
  std::chrono::milliseconds case_timeout{20'000};
};

// Shrinks all files of one command. The process ends with their gravest outcome.
class Shrinking {
 public:
  Shrinking(const ShrinkCommand& command, const Console& console, bool several)
      : command_(command),
        console_(console),
        several_(several),
        runners_(console.worker_program, console.interrupt, command.case_timeout) {
    report_["results"] = Json(Json::Array{});
  }

  void Run(const std::filesystem::path& file);
  void Complain(ExitStatus status, const std::string& why) {
    console_.Complain(why);
    status_ = Gravest({status_, status});
  }
  bool interrupted() const { return interrupted_; }
  ExitStatus Finish() { return console_.Finish(status_, counts_, std::move(report_)); }

 private:
  // Returns true if the target answered; otherwise notes why it is not available.
  bool Asked(Judged::Kind kind, const std::string& error);
  bool Write(const std::filesystem::path& path, const Case& c);
  void Tell(const Pursued& pursued, const std::filesystem::path& file,
            const std::filesystem::path& out);

  const ShrinkCommand& command_;
  const Console& console_;
  const bool several_;
  Runners runners_;
  Json report_;
  Counts counts_;
  ExitStatus status_ = ExitStatus::kClean;
  bool interrupted_ = false;
};

bool Shrinking::Asked(Judged::Kind kind, const std::string& error) {
  if (kind == Judged::Kind::kUnavailable) Complain(ExitStatus::kUnavailable, error);
  if (kind == Judged::Kind::kInterrupted) {
    interrupted_ = true;
    status_ = Gravest({status_, ExitStatus::kInterrupted});
  }
  return kind == Judged::Kind::kJudged;
}

bool Shrinking::Write(const std::filesystem::path& path, const Case& c) {
  std::string error;
  if (WriteCase(path, c, &error)) return true;
  Complain(ExitStatus::kFault, error);
  return false;
}

void Shrinking::Tell(const Pursued& pursued, const std::filesystem::path& file,
                     const std::filesystem::path& out) {
  const StoredFinding& kept = pursued.kept;
  Json entry = Json::Object{{"from", file.string()},
                            {"file", out.string()},
                            {"shrink", ToJson(kept)},
                            {"bucket", ToJson(pursued.stored.bucket)}};
  const Json& extra = pursued.stored.extra;
  for (const char* key : {"explain", "also", "repeats"}) {
    if (const Json* value = extra.Find(key)) entry[key] = *value;
  }
  report_["results"].Append(std::move(entry));
  std::string text = Text("shrunk %s -> %s values: ", std::to_string(kept.values_before).c_str(),
                          std::to_string(kept.values_after).c_str()) +
                     out.string() + "\n" + kept.finding.what + "\n";
  if (!kept.note.empty()) text += kept.note + "\n";
  if (const Json* explain = extra.Find("explain"); explain != nullptr && explain->as_array()) {
    text += "what may vary:\n";
    for (const Json& line : *explain->as_array()) text += "    " + *line.as_string() + "\n";
  }
  console_.Say(text);
}

void Shrinking::Run(const std::filesystem::path& file) {
  std::string error;
  const std::optional<Case> c = ReadCase(file, &error);
  if (!c) return Complain(ExitStatus::kUsage, error);
  CaseRunner& runner = runners_.For(command_.target.empty() ? c->target : command_.target);
  // A finding that fails on some runs only may need several runs to be seen.
  Judged judged;
  for (int64_t i = 0; i < kRepeats && judged.result.findings.empty(); ++i) {
    judged = runner.RunAndConfirm(RequestForStored(*c));
    if (!Asked(judged.kind, judged.error)) return;
    if (!judged.result.harness_fault.empty()) break;
  }
  counts_.Add(judged.result);
  if (!judged.result.harness_fault.empty()) {
    return Complain(ExitStatus::kFault, file.string() + ": " + judged.result.harness_fault);
  }
  if (judged.result.findings.empty()) {
    return console_.Say("nothing to shrink: " + file.string() + " does not fail on " + runner.target() +
                        "\n");
  }
  status_ = Gravest({status_, StatusOf(judged.result.findings)});
  const Finding* same = FindSignature(judged.result, c->finding.Signature());
  const FailingProblem start = StartFrom(*c, same != nullptr ? *same : judged.result.findings.front());
  PursuitOptions options;
  options.shrink_time = command_.time;
  options.tries = command_.tries;
  const Pursued pursued = Pursue(start, &runner, options);
  if (!Asked(pursued.kind, pursued.error)) return;
  const std::string name = CaseFileName(pursued.stored);
  const std::filesystem::path out = command_.out.empty() ? file.parent_path() / name
                                    : several_           ? command_.out / name
                                                         : command_.out;
  if (!Write(out, pursued.stored)) return;
  Tell(pursued, file, out);
  for (const Case& other : pursued.other_findings) {
    const std::filesystem::path path = out.parent_path() / CaseFileName(other);
    if (Write(path, other)) {
      console_.Say("seen on the way: " + other.finding.what + ": " + path.string() + "\n");
    }
  }
  if (pursued.harness_fault.empty()) return;
  status_ = Gravest({status_, ExitStatus::kFault});
  const std::filesystem::path witness = out.parent_path() / ("fault-" + CaseFileName(*pursued.witness));
  if (Write(witness, *pursued.witness)) {
    console_.Complain(pursued.harness_fault + "; see " + witness.string());
  }
}

ExitStatus CommandShrink(const ShrinkCommand& command, const Console& console) {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> refused;
  for (const std::filesystem::path& path : command.paths) {
    const CaseListing listing = ListCases(path);
    refused.insert(refused.end(), listing.unreadable.begin(), listing.unreadable.end());
    if (!listing.nothing_found.empty()) console.Say(listing.nothing_found + ": nothing to shrink\n");
    files.insert(files.end(), listing.files.begin(), listing.files.end());
  }
  std::error_code code;
  const bool several = files.size() > 1 || std::filesystem::is_directory(command.out, code);
  if (several && !command.out.empty()) {
    std::filesystem::create_directories(command.out, code);
    if (code || !std::filesystem::is_directory(command.out)) {
      console.Complain("--out " + command.out.string() + " is no folder, which several cases need");
      return console.Finish(ExitStatus::kUsage);
    }
  }
  Shrinking shrinking(command, console, several);
  for (const std::string& line : refused) shrinking.Complain(ExitStatus::kUsage, line);
  for (const std::filesystem::path& file : files) {
    if (!shrinking.interrupted()) shrinking.Run(file);
  }
  return shrinking.Finish();
}

}  // namespace

void AddShrink(CommandLine* line) {
  auto options = std::make_shared<ShrinkCommand>();
  CLI::App* sub =
      line->Add("shrink", "Shrink stored cases further, and say what of them may vary",
                "plumb shrink case.safetensors --target mutant:tail-unmasked --out small.safetensors",
                [=] { return CommandShrink(*options, line->console); });
  sub->add_option("path", options->paths, "case files, or folders of them")->required();
  sub->add_option("--target", options->target, "instead of the target that the case names");
  sub->add_option(
      "--out", options->out,
      "the file to write, of several cases the folder [beside each, named after its content]");
  auto* time = AddParsed(sub, "--time", &options->time, ParseTime, "at most this long a case [30s]");
  sub->add_option("--shrink-tries", options->tries,
                  "at most so many tries a case, in place of the time")
      ->check(CLI::NonNegativeNumber)
      ->excludes(time);
  AddCaseTimeout(sub, &options->case_timeout);
  AddPython(sub);
}

}  // namespace plumbline::fuzz

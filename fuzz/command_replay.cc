// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>

#include "fuzz/case_file.h"
#include "fuzz/case_runner.h"
#include "fuzz/commands.h"
#include "fuzz/pursuit.h"
#include "fuzz/report_text.h"

namespace plumbline::fuzz {
namespace {

// One worker a target, kept from case to case.
class Runners {
 public:
  Runners(const Console& console, std::chrono::milliseconds deadline)
      : console_(console), deadline_(deadline) {}
  CaseRunner& For(const std::string& target) {
    std::unique_ptr<CaseRunner>& runner = runners_[target];
    if (!runner) {
      WorkerSpec spec;
      spec.target = target;
      spec.program = console_.worker_program;
      runner = std::make_unique<CaseRunner>(std::move(spec), deadline_, console_.interrupt);
    }
    return *runner;
  }

 private:
  const Console& console_;
  std::chrono::milliseconds deadline_;
  std::map<std::string, std::unique_ptr<CaseRunner>> runners_;
};

struct Outcome {
  std::string word;  // "still fails", "passes", "fails differently", "skipped", "vacuous", "fault"
  std::string detail;
};

Outcome Compare(const Case& c, const CaseResult& result) {
  if (!result.harness_fault.empty()) return {"fault", result.harness_fault};
  if (const Finding* same = FindSignature(result, c.finding.Signature())) {
    return {"still fails",
            same->what + (same->arbiter.empty() ? "" : "; the arbiter: " + same->arbiter)};
  }
  if (!result.findings.empty()) {
    const Finding& worst = result.findings.front();
    return {"fails differently",
            "was " + c.finding.Signature() + ", is " + worst.Signature() + ": " + worst.what};
  }
  if (result.verdict == oracle::Verdict::kSkipped) return {"skipped", result.skip_reason};
  if (result.verdict == oracle::Verdict::kVacuous) return {"vacuous", "nothing in it could be judged"};
  double tightest = 0;
  for (const OutputSummary& output : result.outputs) tightest = std::max(tightest, output.tightness);
  char text[64];
  std::snprintf(text, sizeof text, "largest error/allowed %.3g", tightest);
  return {"passes", text};
}

}  // namespace

ExitStatus CommandReplay(const CaseFiles& files, const Console& console) {
  Runners runners(console, files.case_timeout);
  Json report = Json(Json::Object{});
  report["results"] = Json(Json::Array{});
  int64_t cases = 0, failing = 0;
  bool fault = false;
  for (const std::filesystem::path& path : files.paths) {
    std::string error;
    const std::vector<std::filesystem::path> expanded = ExpandPath(path, &error);
    if (expanded.empty()) {
      console.Complain(error);
      return console.Finish(ExitStatus::kUsage, cases, failing, std::move(report));
    }
    for (const std::filesystem::path& file : expanded) {
      const std::optional<Case> c = ReadCase(file, &error);
      if (!c) {
        console.Complain(file.string() + ": " + error);
        return console.Finish(ExitStatus::kUsage, cases, failing, std::move(report));
      }
      const std::string& target = files.target.empty() ? c->target : files.target;
      const Judged judged = runners.For(target).RunAndConfirm(RequestFor(c->problem, SeedOf(*c)));
      if (judged.kind == Judged::Kind::kInterrupted) {
        return console.Finish(ExitStatus::kInterrupted, cases, failing, std::move(report));
      }
      if (judged.kind == Judged::Kind::kUnavailable) {
        console.Complain(judged.error);
        return console.Finish(ExitStatus::kUnavailable, cases, failing, std::move(report));
      }
      const Outcome outcome = Compare(*c, judged.result);
      ++cases;
      failing += judged.result.findings.empty() ? 0 : 1;
      fault = fault || !judged.result.harness_fault.empty();
      console.Say(outcome.word + ": " + file.string() + " on " + target + ": " + outcome.detail + "\n");
      Json entry;
      entry["file"] = file.string();
      entry["target"] = target;
      entry["outcome"] = outcome.word;
      entry["was"] = c->finding.Signature();
      entry["result"] = ToJson(judged.result);
      report["results"].Append(std::move(entry));
    }
  }
  const ExitStatus status = fault         ? ExitStatus::kFault
                            : failing > 0 ? ExitStatus::kFindings
                                          : ExitStatus::kClean;
  return console.Finish(status, cases, failing, std::move(report));
}

ExitStatus CommandShow(const CaseFiles& files, const Console& console) {
  int64_t cases = 0;
  for (const std::filesystem::path& path : files.paths) {
    std::string error;
    const std::vector<std::filesystem::path> expanded = ExpandPath(path, &error);
    if (expanded.empty()) {
      console.Complain(error);
      return console.Finish(ExitStatus::kUsage, cases, 0);
    }
    for (const std::filesystem::path& file : expanded) {
      const std::optional<Case> c = ReadCase(file, &error);
      if (!c) {
        console.Complain(file.string() + ": " + error);
        return console.Finish(ExitStatus::kUsage, cases, 0);
      }
      console.Say(file.string() + "\n" + Show(*c) + "\n");
      ++cases;
    }
  }
  // Nothing was run: a finding that is shown is no verdict on a target.
  return console.Finish(ExitStatus::kClean, cases, 0);
}

ExitStatus CommandShrink(const ShrinkCommand& command, const Console& console) {
  std::string error;
  const std::optional<Case> c = ReadCase(command.file, &error);
  if (!c) {
    console.Complain(command.file.string() + ": " + error);
    return console.Finish(ExitStatus::kUsage, 0, 0);
  }
  Runners runners(console, command.case_timeout);
  CaseRunner& runner = runners.For(command.target.empty() ? c->target : command.target);
  const Judged judged = runner.RunAndConfirm(RequestFor(c->problem, SeedOf(*c)));
  if (judged.kind != Judged::Kind::kJudged) {
    const bool gone = judged.kind == Judged::Kind::kUnavailable;
    if (gone) console.Complain(judged.error);
    return console.Finish(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, 0, 0);
  }
  if (!judged.result.harness_fault.empty()) {
    console.Complain(judged.result.harness_fault);
    return console.Finish(ExitStatus::kFault, 1, 0);
  }
  if (judged.result.findings.empty()) {
    console.Say("nothing to shrink: " + command.file.string() + " does not fail on " + runner.target() +
                "\n");
    return console.Finish(ExitStatus::kClean, 1, 0);
  }
  const Finding* same = FindSignature(judged.result, c->finding.Signature());
  const FailingProblem start{.problem = c->problem,
                             .finding = same != nullptr ? *same : judged.result.findings.front(),
                             .recipe = c->recipe,
                             .why = c->why,
                             .seed = SeedOf(*c)};
  PursuitOptions options;
  options.shrink_time = command.time;
  const Pursued pursued = Pursue(start, &runner, options);
  if (pursued.kind != Pursued::Kind::kCase) {
    const bool gone = pursued.kind == Pursued::Kind::kUnavailable;
    if (gone) console.Complain(pursued.error);
    return console.Finish(gone ? ExitStatus::kUnavailable : ExitStatus::kInterrupted, 1, 1);
  }
  const std::filesystem::path out =
      command.out.empty() ? command.file.parent_path() / CaseFileName(pursued.stored) : command.out;
  if (!WriteCase(out, pursued.stored, &error)) {
    console.Complain(error);
    return console.Finish(ExitStatus::kFault, 1, 1);
  }
  if (!pursued.harness_fault.empty()) {
    console.Complain(pursued.harness_fault + "; see " + out.string());
    return console.Finish(ExitStatus::kFault, 1, 1);
  }
  Json report;
  report["file"] = out.string();
  report["shrink"] = ToJson(pursued.kept);
  console.Say("shrunk " + std::to_string(pursued.kept.values_before) + " -> " +
              std::to_string(pursued.kept.values_after) + " values: " + out.string() + "\n" +
              pursued.kept.finding.what + "\n");
  if (!pursued.kept.note.empty()) console.Say(pursued.kept.note + "\n");
  return console.Finish(ExitStatus::kFindings, 1, 1, std::move(report));
}

}  // namespace plumbline::fuzz

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

}  // namespace plumbline::fuzz

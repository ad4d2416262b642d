// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fuzz/check/consistency_report.h"
#include "fuzz/check/diagnosis.h"
#include "fuzz/check/doubles.h"
#include "fuzz/check/report.h"
#include "fuzz/check/rollout.h"
#include "fuzz/check/shard_report.h"
#include "fuzz/check/vocabulary.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/description.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

bool CheckSession::Fail(ExitStatus status, std::string complaint) {
  checked_.status = status;
  checked_.complaint = std::move(complaint);
  return false;
}

Checked CheckSession::Check(const std::filesystem::path& path) {
  std::string error;
  dump_ = OpenDump(path, &error, options_.vocabulary);
  if (!dump_) {
    Fail(ExitStatus::kUsage, error);
    return checked_;
  }
  sample_ = std::make_unique<DumpSample>(*dump_, ChooseRows(*dump_, options_.rows, options_.seed));
  if (options_.run || !dump_->HasOutputs()) {
    CheckRun();
  } else if (ReadContract()) {
    Judge(sample_->given(), false);
  }
  return std::move(checked_);
}

bool CheckSession::ReadContract() {
  std::string error;
  if (!options_.contract.empty() || target_.empty()) {
    const std::optional<NamedDescription> held =
        DescriptionOf(options_.contract.empty() ? std::string(kBlackBox) : options_.contract, &error);
    if (!held) return Fail(ExitStatus::kUsage, error);
    contract_name_ = options_.contract.empty() ? "a black box" : held->name;
    description_ = held->description;
  } else {
    // A worker is asked, because loading a foreign target runs its code.
    CaseRunner runner({.target = target_, .program = options_.program}, options_.timeout, &interrupt_);
    if (!runner.Ready(&error)) return Fail(ExitStatus::kUnavailable, error);
    const auto description = ParseDescription(runner.hello().description, &error);
    if (!description) return Fail(ExitStatus::kFault, "description: " + error);
    contract_name_ = target_;
    description_ = *description;
  }
  return true;
}

void CheckSession::CheckRun() {
  if (target_.empty()) target_ = "host";
  const DumpRun run({.target = target_,
                     .dump = dump_->path,
                     .rows = options_.rows,
                     .seed = options_.seed,
                     .vocabulary = options_.vocabulary,
                     .program = options_.program,
                     .deadline = options_.timeout},
                    *sample_, &interrupt_);
  if (run.kind() != DumpRun::Kind::kRan) return Explain(run);
  if (options_.contract.empty()) {
    contract_name_ = target_;
    description_ = run.description();
  } else if (!ReadContract()) {
    return;
  }
  Judge(run.results(), true);
}

void CheckSession::Explain(const DumpRun& run) {
  using Kind = DumpRun::Kind;
  const std::string where = dump_->path.string() + ": " + target_ + " ";
  switch (run.kind()) {
    case Kind::kInterrupted:
      checked_.status = ExitStatus::kInterrupted;
      return;
    case Kind::kUnavailable:
      Fail(ExitStatus::kUnavailable, run.what());
      return;
    case Kind::kFault:
      Fail(ExitStatus::kFault, where + run.what());
      return;
    case Kind::kRefused:
      Fail(ExitStatus::kUsage, where + "cannot be held to this dump: " + run.what());
      return;
    default:
      break;
  }
  checked_.status = ExitStatus::kFindings;
  checked_.findings = 1;
  checked_.json["file"] = dump_->path.string();
  checked_.json["finding"] = run.kind() == Kind::kDied       ? "crash"
                             : run.kind() == Kind::kTimedOut ? "hang"
                                                             : "status";
  checked_.json["what"] = run.what();
  checked_.text = where + (run.kind() == Kind::kFailed ? "failed: " : "") + run.what() + "\n";
}

void CheckSession::Judge(const kernel::Results& results, bool ran) {
  JudgeDumpOptions judging;
  judging.threads = options_.threads;
  judging.interrupt = &interrupt_;
  judging.seed = options_.seed;
  judging.deep = options_.deep;
  judging.arbiter_cost =
      static_cast<double>(options_.arbiter_time.count()) / 1000 * kArbiterCostASecond;
  if (!ran && !sample_->all()) judging.counted_rows = dump_->counted;
  DumpReport report;
  report.judged = ran ? "what " + target_ + " makes of its inputs" : "what the dump holds";
  report.contract = contract_name_;
  report.assumed = !ran && options_.contract.empty() && target_.empty();
  report.verdict = JudgeDump(*sample_, results, description_, judging);
  report.diagnosis = Diagnose(*sample_, results, description_.contract, report.verdict, judging);
  report.consistency = CheckDumpConsistency(*sample_, results, description_, judging.counted_rows, ran);
  report.not_looked_at = NotLookedAt(*sample_, ran);
  ReportRollouts(*sample_, judging, &report);
  if (interrupt_.load()) {  // a part of a verdict is not reported
    checked_.status = ExitStatus::kInterrupted;
    return;
  }
  ReportShards(*sample_, results, description_, judging, ran, &report);
  ReportRounded(*dump_, &report);
  ReportPadding(*dump_, ran, &report);
  if (description_.assumptions.any()) report.cannot_show = NotShown(description_);
  checked_.text = DumpReportText(*sample_, report);
  checked_.json = DumpReportJson(*sample_, report);
  std::vector<oracle::Output> found;
  for (const JudgedOutput& o : report.verdict.outputs) {
    if (o.verdict.fail > 0 || report.verdict.honest.Suspect(o.verdict.output)) {
      found.push_back(o.verdict.output);
    }
  }
  if (report.verdict.over_all_rows.AnySuspect()) found.push_back(oracle::Output::kGradWeight);
  checked_.findings = static_cast<int64_t>(found.size());
  bool wrong = report.verdict.wrong > 0 || !report.findings.empty();
  for (const ConsistencyCheck* check : BrokenChecks(report.consistency)) {
    wrong = wrong || check->verdict == ConsistencyVerdict::kWrong;
    const auto compared = ComparedOutputs(check->name);
    checked_.findings += std::ranges::find_first_of(compared, found) == compared.end();
  }
  checked_.findings += static_cast<int64_t>(report.findings.size());
  if (!report.verdict.fault.empty()) {
    Fail(ExitStatus::kFault, report.verdict.fault);
  } else if (checked_.findings > 0) {
    checked_.status = wrong ? ExitStatus::kFindings : ExitStatus::kSuspect;
    const DumpVerdict& verdict = report.verdict;
    if (ran && (verdict.wrong + verdict.suspect > 0 || verdict.honest.AnySuspect())) {
      wrong_ = std::move(report.verdict);
    }
  } else if (report.verdict.judged == 0) {
    Fail(ExitStatus::kUsage, dump_->path.string() + ": nothing in it could be judged");
  }
}

std::optional<DumpCase> CheckSession::Keep() const {
  if (options_.out.empty() || !wrong_) return std::nullopt;
  WorkerSpec spec;
  spec.target = target_;
  if (!options_.contract.empty()) {
    const std::string plain(SplitTarget(target_).first);
    spec.target = HeldTo(plain, options_.contract);
    if (SplitTarget(spec.target).second != options_.contract) {
      DumpCase none;
      none.what = "a stored case names its contract by one of " + ContractNames() + ", not " +
                  options_.contract;
      return none;
    }
  }
  spec.program = options_.program;
  CaseRunner runner(std::move(spec), options_.timeout, &interrupt_);
  return KeepDumpCase(*sample_, *wrong_, options_.seed, options_.out, &runner);
}

}  // namespace plumbline::fuzz

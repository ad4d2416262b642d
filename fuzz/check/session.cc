// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/session.h"

#include <utility>

#include "fuzz/base/regular_file.h"
#include "fuzz/check/diagnosis.h"
#include "fuzz/check/report.h"
#include "fuzz/examine/second_opinion.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

bool CheckSession::Fail(ExitStatus status, std::string complaint) {
  checked_.status = status;
  checked_.complaint = std::move(complaint);
  return false;
}

Checked CheckSession::Check(const std::filesystem::path& path) {
  std::string error;
  dump_ = OpenDump(path, &error);
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
  if (!options_.contract.empty()) {
    constexpr uint64_t kMaxDescription = uint64_t{1} << 20;
    const std::optional<std::string> text = ReadRegular(options_.contract, kMaxDescription, &error);
    if (!text) return Fail(ExitStatus::kUsage, error);
    const std::optional<Description> description = ParseDescription(*text, &error);
    if (!description) return Fail(ExitStatus::kUsage, options_.contract.string() + ": " + error);
    contract_name_ = description->name;
    contract_ = description->contract;
  } else if (target_.empty()) {
    contract_name_ = "a black box";
  } else {
    const std::unique_ptr<Target> target = LoadTarget(target_, &error);
    if (!target) return Fail(ExitStatus::kUnavailable, error);
    contract_name_ = target_;
    contract_ = target->description().contract;
  }
  return true;
}

void CheckSession::CheckRun() {
  if (target_.empty()) target_ = "host";
  const DumpRun run({.target = target_,
                     .dump = dump_->path,
                     .rows = options_.rows,
                     .seed = options_.seed,
                     .program = options_.program,
                     .deadline = options_.timeout},
                    *sample_, &interrupt_);
  if (run.kind() != DumpRun::Kind::kRan) return Explain(run);
  if (options_.contract.empty()) {
    contract_name_ = target_;
    contract_ = run.description().contract;
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
  judging.arbiter_cost =
      static_cast<double>(options_.arbiter_time.count()) / 1000 * kArbiterCostASecond;
  if (!ran && !sample_->all()) judging.counted_rows = dump_->counted;
  DumpReport report;
  report.judged = ran ? "what " + target_ + " makes of its inputs" : "what the dump holds";
  report.contract = contract_name_;
  report.verdict = JudgeDump(*sample_, results, contract_, judging);
  report.diagnosis = Diagnose(*sample_, results, contract_, report.verdict, judging);
  report.not_looked_at = NotLookedAt(*sample_, ran);
  if (interrupt_.load()) {  // a part of a verdict is not reported
    checked_.status = ExitStatus::kInterrupted;
    return;
  }
  checked_.text = DumpReportText(*sample_, report);
  checked_.json = DumpReportJson(*sample_, report);
  for (const JudgedOutput& o : report.verdict.outputs) checked_.findings += o.verdict.fail > 0;
  if (!report.verdict.fault.empty()) {
    Fail(ExitStatus::kFault, report.verdict.fault);
  } else if (checked_.findings > 0) {
    checked_.status = ExitStatus::kFindings;
    if (ran) wrong_ = std::move(report.verdict);
  } else if (report.verdict.judged == 0) {
    Fail(ExitStatus::kUsage, dump_->path.string() + ": nothing in it could be judged");
  }
}

std::optional<DumpCase> CheckSession::Keep() const {
  if (options_.out.empty() || !wrong_) return std::nullopt;
  WorkerSpec spec;
  spec.target = target_;
  spec.program = options_.program;
  CaseRunner runner(std::move(spec), options_.timeout, &interrupt_);
  return KeepDumpCase(*sample_, *wrong_, options_.seed, options_.out, &runner);
}

}  // namespace plumbline::fuzz

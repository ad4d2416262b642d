// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <optional>
#include <utility>

#include "fuzz/base/regular_file.h"
#include "fuzz/base/text.h"
#include "fuzz/builtin/catalogue.h"
#include "fuzz/check/diagnosis.h"
#include "fuzz/check/judge.h"
#include "fuzz/check/keep_case.h"
#include "fuzz/check/report.h"
#include "fuzz/check/run.h"
#include "fuzz/check/sample.h"
#include "fuzz/cli/commands.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

// The outcome of one dump.
struct Checked {
  ExitStatus status = ExitStatus::kClean;
  std::string complaint;  // for stderr; may be empty
  int64_t findings = 0;
  Json json;
};

struct NamedContract {
  std::string name;
  oracle::Contract contract;
};

// Returns the contract of --contract, else the target's, else the black box's; or the reason why there
// is none.
std::optional<NamedContract> ContractFor(const CheckCommand& command, const std::string& name,
                                         std::string* error, ExitStatus* status) {
  if (!command.contract.empty()) {
    constexpr uint64_t kMaxDescription = uint64_t{1} << 20;
    *status = ExitStatus::kUsage;
    const std::optional<std::string> text = ReadRegular(command.contract, kMaxDescription, error);
    if (!text) return std::nullopt;
    const std::optional<Description> description = ParseDescription(*text, error);
    *error = command.contract.string() + ": " + *error;
    if (!description) return std::nullopt;
    return NamedContract{description->name, description->contract};
  }
  if (name.empty()) return NamedContract{"a black box", {}};
  const std::unique_ptr<Target> target = LoadTarget(name, error);
  *status = ExitStatus::kUnavailable;
  if (!target) return std::nullopt;
  return NamedContract{name, target->description().contract};
}

JudgeDumpOptions OptionsFor(const CheckCommand& command, const Console& console) {
  JudgeDumpOptions options;
  options.threads = command.threads;
  options.interrupt = console.interrupt;
  options.arbiter_cost = static_cast<double>(command.arbiter_time.count()) / 1000 * kArbiterCostASecond;
  return options;
}

void Conclude(const Dump& dump, const DumpSample& sample, const DumpReport& report,
              const Console& console, Checked* checked) {
  if (console.interrupt->load()) {  // a part of a verdict is not reported
    checked->status = ExitStatus::kInterrupted;
    return;
  }
  console.Say(DumpReportText(dump, sample, report));
  checked->json = DumpReportJson(dump, sample, report);
  for (const JudgedOutput& o : report.verdict.outputs) checked->findings += o.verdict.fail > 0;
  if (!report.verdict.fault.empty()) {
    checked->status = ExitStatus::kFault;
    checked->complaint = report.verdict.fault;
  } else if (checked->findings > 0) {
    checked->status = ExitStatus::kFindings;
  } else if (report.verdict.judged == 0) {
    checked->status = ExitStatus::kUsage;
    checked->complaint = dump.path.string() + ": nothing in it could be judged";
  }
}

void CheckGiven(const CheckCommand& command, const std::string& target, const Dump& dump,
                const DumpSample& sample, const Console& console, Checked* checked) {
  const std::optional<NamedContract> contract =
      ContractFor(command, target, &checked->complaint, &checked->status);
  if (!contract) return;
  checked->status = ExitStatus::kClean;
  JudgeDumpOptions options = OptionsFor(command, console);
  if (!sample.all()) options.counted_rows = dump.counted;
  DumpReport report;
  report.judged = "what the dump holds";
  report.contract = contract->name;
  report.verdict = JudgeDump(sample, sample.given(), contract->contract, options);
  report.diagnosis =
      Diagnose(dump, sample, sample.given(), contract->contract, report.verdict, options);
  report.not_looked_at = NotLookedAt(dump, sample, false);
  Conclude(dump, sample, report, console, checked);
}

// Explains a target that did not return results.
void Explain(const DumpRun& run, const std::string& target, const Dump& dump, const Console& console,
             Checked* checked) {
  using Kind = DumpRun::Kind;
  const std::string where = dump.path.string() + ": " + target + " ";
  checked->complaint = where + run.what();
  switch (run.kind()) {
    case Kind::kInterrupted:
      checked->status = ExitStatus::kInterrupted;
      checked->complaint.clear();
      return;
    case Kind::kUnavailable:
      checked->status = ExitStatus::kUnavailable;
      checked->complaint = run.what();
      return;
    case Kind::kFault:
      checked->status = ExitStatus::kFault;
      return;
    case Kind::kRefused:
      checked->status = ExitStatus::kUsage;
      checked->complaint = where + "cannot be held to this dump: " + run.what();
      return;
    default:
      break;
  }
  const char* const name = run.kind() == Kind::kDied       ? "crash"
                           : run.kind() == Kind::kTimedOut ? "hang"
                                                           : "status";
  checked->status = ExitStatus::kFindings;
  checked->findings = 1;
  checked->complaint.clear();
  checked->json["file"] = dump.path.string();
  checked->json["finding"] = name;
  checked->json["what"] = run.what();
  console.Say(where + (run.kind() == Kind::kFailed ? "failed: " : "") + run.what() + "\n");
}

void Keep(const CheckCommand& command, const std::string& target, const Dump& dump,
          const DumpSample& sample, const DumpVerdict& verdict, const Console& console,
          Checked* checked) {
  WorkerSpec spec;
  spec.target = target;
  spec.program = console.worker_program;
  CaseRunner runner(std::move(spec), command.timeout, console.interrupt);
  const DumpCase kept = KeepDumpCase(dump, sample, verdict, command.seed, command.out, &runner);
  if (kept.file.empty()) {
    console.Say("no case was stored: " + kept.what + "\n");
    return;
  }
  console.Say(
      Text("shrunk %" PRId64 " -> %" PRId64 " values: ", kept.values_before, kept.values_after) +
      kept.file.string() + "\n       " + kept.what + "\n");
  checked->json["case"] = kept.file.string();
}

void CheckRun(const CheckCommand& command, const std::string& target, const Dump& dump,
              const DumpSample& sample, const Console& console, Checked* checked) {
  DumpRunSpec spec;
  spec.target = target.empty() ? "host" : target;
  spec.dump = dump.path;
  spec.rows = command.rows;
  spec.seed = command.seed;
  spec.program = console.worker_program;
  spec.deadline = command.timeout;
  const DumpRun run(spec, sample, console.interrupt);
  if (run.kind() != DumpRun::Kind::kRan) {
    Explain(run, spec.target, dump, console, checked);
    return;
  }
  NamedContract contract{spec.target, run.description().contract};
  if (!command.contract.empty()) {
    const auto other = ContractFor(command, target, &checked->complaint, &checked->status);
    if (!other) return;
    contract = *other;
  }
  checked->status = ExitStatus::kClean;
  DumpReport report;
  report.judged = "what " + spec.target + " makes of its inputs";
  report.contract = contract.name;
  const JudgeDumpOptions options = OptionsFor(command, console);
  report.verdict = JudgeDump(sample, run.results(), contract.contract, options);
  report.diagnosis = Diagnose(dump, sample, run.results(), contract.contract, report.verdict, options);
  report.not_looked_at = NotLookedAt(dump, sample, true);
  Conclude(dump, sample, report, console, checked);
  if (!command.out.empty() && checked->status == ExitStatus::kFindings) {
    Keep(command, spec.target, dump, sample, report.verdict, console, checked);
  }
}

Checked CheckOne(const CheckCommand& command, const std::filesystem::path& path,
                 const std::string& target, const Console& console) {
  Checked checked;
  const std::unique_ptr<Dump> dump = OpenDump(path, &checked.complaint);
  if (!dump) {
    checked.status = ExitStatus::kUsage;
    return checked;
  }
  const DumpSample sample(*dump, ChooseRows(*dump, command.rows, command.seed));
  if (dump->HasOutputs() && !command.run) {
    CheckGiven(command, target, *dump, sample, console, &checked);
  } else {
    CheckRun(command, target, *dump, sample, console, &checked);
  }
  return checked;
}

}  // namespace

ExitStatus CommandCheck(const CheckCommand& command, const Console& console) {
  Json report = Json(Json::Object{});
  report["dumps"] = Json(Json::Array{});
  ExitStatus status = ExitStatus::kClean;
  int64_t cases = 0, findings = 0;
  const std::vector<std::string> nobody = {""};
  for (const std::filesystem::path& path : command.paths) {
    for (const std::string& target : command.targets.empty() ? nobody : command.targets) {
      if (status == ExitStatus::kInterrupted) break;
      Checked checked = CheckOne(command, path, target, console);
      if (!checked.complaint.empty()) console.Complain(checked.complaint);
      cases += checked.json.is_null() ? 0 : 1;
      findings += checked.findings;
      if (!checked.json.is_null()) report["dumps"].Append(std::move(checked.json));
      status = Gravest({{status, true}, {checked.status, true}});
    }
  }
  return console.Finish(status, cases, findings, std::move(report));
}

}  // namespace plumbline::fuzz

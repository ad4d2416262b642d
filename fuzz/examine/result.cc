// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/result.h"

#include <algorithm>
#include <array>

#include "fuzz/examine/conventions.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 15> kKinds = {
    "bound",         "non-finite",  "sign",          "not-zero", "unwritten", "nondeterministic",
    "batch-variant", "guard-band",  "input-written", "status",   "crash",     "hang",
    "relation",      "consistency", "magnitude"};

}  // namespace

std::string_view Name(FindingKind kind) { return NameOf(kind, kKinds); }

std::string Finding::Signature() const {
  std::string signature(suspect ? "suspect-" : "");
  if (unexplained) signature += kUnexplained;
  signature += Name(kind);
  if (!relation.empty()) signature += ":" + relation;
  if (!output.empty()) signature += ":" + output;
  if (!failure.empty() && kind == FindingKind::kStatus && output.empty()) signature += ":" + failure;
  return signature;
}

bool Means(std::string_view written, std::string_view signature) {
  if (written == signature) return true;
  constexpr std::string_view kEvery = "status";
  if (!written.starts_with(kEvery) || !signature.starts_with(kEvery)) return false;
  const std::string_view mark = written.substr(kEvery.size());  // "" or " (once)"
  signature.remove_prefix(kEvery.size());
  if ((!mark.empty() && mark.front() != ' ') || !signature.ends_with(mark)) return false;
  signature.remove_suffix(mark.size());
  return signature.starts_with(':') && IsFailureWord(signature.substr(1));
}

Names VerdictNames() {
  using oracle::Verdict;
  static const std::array kNames = {Name(Verdict::kPass),    Name(Verdict::kFail),
                                    Name(Verdict::kVacuous), Name(Verdict::kUnspecified),
                                    Name(Verdict::kSkipped), Name(Verdict::kSuspect)};
  return kNames;
}

ExitStatus StatusOf(const std::vector<Finding>& findings) {
  const oracle::Verdict verdict = VerdictOf(findings, oracle::Verdict::kPass);
  return verdict == oracle::Verdict::kFail      ? ExitStatus::kFindings
         : verdict == oracle::Verdict::kSuspect ? ExitStatus::kSuspect
                                                : ExitStatus::kClean;
}

bool IsJudged(const CaseResult& result) {
  using oracle::Verdict;
  return result.harness_fault.empty() &&
         (result.verdict == Verdict::kPass || result.verdict == Verdict::kFail ||
          result.verdict == Verdict::kSuspect);
}

oracle::Verdict VerdictOf(const std::vector<Finding>& findings, oracle::Verdict clean) {
  if (findings.empty()) return clean;
  const bool suspect = std::ranges::all_of(findings, &Finding::suspect);
  return suspect ? oracle::Verdict::kSuspect : oracle::Verdict::kFail;
}

void Fields(FieldVisitor& io, SuspectReading& reading) {
  io("what", reading.what);
  io("opt_out", reading.opt_out);
}

void Fields(FieldVisitor& io, ContractFit& fit) {
  io("contract", fit.contract);
  io("tightness", fit.tightness);
}

void Fields(FieldVisitor& io, Finding& f) {
  io.AllowUnknown();
  io("kind", f.kind, kKinds);
  io.AllowAbsent();
  io.IfSet("relation", f.relation);
  io.IfSet("suspect", f.suspect);
  io.IfSet("output", f.output);
  io("row", f.row);
  io("column", f.column);
  io("got", f.got);
  io("expected", f.expected);
  io("bound", f.bound);
  io("tightness", f.tightness);
  io.IfSet("arbiter", f.arbiter);
  io.IfSet("arbiter_silent", f.arbiter_silent);
  io("what", f.what);
  io.IfSet("readings", f.readings);
  io.IfSet("shortcut", f.shortcut);
  io.IfSet("unexplained", f.unexplained);
  io.IfSet("failure", f.failure);
}

void Fields(FieldVisitor& io, OutputSummary& o) {
  io("output", o.output);
  io("pass", o.pass);
  io("fail", o.fail);
  io("vacuous", o.vacuous);
  io("unspecified", o.unspecified);
  io.IfSet("suspect", o.suspect);
  io("tightness", o.tightness);
}

void Fields(FieldVisitor& io, HonestRatio& h) {
  io("output", h.output);
  io("ratio", h.ratio);
  io("rms", h.rms);
  io("largest", h.largest);
  io.IfSet("dropped", h.dropped);
  io.IfSet("units", h.units);
}

void Fields(FieldVisitor& io, CaseResult& r) {
  io("verdict", r.verdict, VerdictNames());
  io.IfSet("skip_reason", r.skip_reason);
  if (io.Has("conventions", !r.conventions.empty())) io("conventions", r.conventions);
  io.IfSet("harness_fault", r.harness_fault);
  io.IfSet("arbitrated", r.arbitrated);
  io.IfSet("fits", r.fits);
  io.IfSet("honest", r.honest);
  io.IfSet("inference", r.inference);
  io.IfSet("findings", r.findings);
  io.IfSet("outputs", r.outputs);
  io("expand_seconds", r.expand_seconds);
  io("target_seconds", r.target_seconds);
  io("oracle_seconds", r.oracle_seconds);
  io("first_run_seconds", r.first_run_seconds);
}

}  // namespace plumbline::fuzz

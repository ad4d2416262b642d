// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/result.h"

#include <array>

#include "fuzz/examine/conventions.h"

namespace plumbline::fuzz {
namespace {

constexpr std::array<std::string_view, 12> kKinds = {
    "bound",         "non-finite", "sign",          "not-zero", "unwritten", "nondeterministic",
    "batch-variant", "guard-band", "input-written", "status",   "crash",     "hang"};

}  // namespace

std::string_view Name(FindingKind kind) { return NameOf(kind, kKinds); }

std::string Finding::Signature() const {
  std::string signature(Name(kind));
  if (!output.empty()) signature += ":" + output;
  return signature;
}

Names VerdictNames() {
  using oracle::Verdict;
  static const std::array kNames = {Name(Verdict::kPass), Name(Verdict::kFail), Name(Verdict::kVacuous),
                                    Name(Verdict::kUnspecified), Name(Verdict::kSkipped)};
  return kNames;
}

void Fields(FieldVisitor& io, Finding& f) {
  io.AllowUnknown();
  io("kind", f.kind, kKinds);
  io.AllowAbsent();
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
}

void Fields(FieldVisitor& io, OutputSummary& o) {
  io("output", o.output);
  io("pass", o.pass);
  io("fail", o.fail);
  io("vacuous", o.vacuous);
  io("unspecified", o.unspecified);
  io("tightness", o.tightness);
}

void Fields(FieldVisitor& io, CaseResult& r) {
  io("verdict", r.verdict, VerdictNames());
  io.IfSet("skip_reason", r.skip_reason);
  if (io.Has("conventions", !r.conventions.empty())) io("conventions", r.conventions);
  io.IfSet("harness_fault", r.harness_fault);
  io.IfSet("arbitrated", r.arbitrated);
  io.IfSet("findings", r.findings);
  io.IfSet("outputs", r.outputs);
  io("expand_seconds", r.expand_seconds);
  io("target_seconds", r.target_seconds);
  io("oracle_seconds", r.oracle_seconds);
}

}  // namespace plumbline::fuzz

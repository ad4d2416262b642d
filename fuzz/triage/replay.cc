// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/replay.h"

#include <algorithm>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/base/units.h"
#include "fuzz/triage/pursuit.h"

namespace plumbline::fuzz {
namespace {

constexpr size_t kHistory = 8;

std::string Arbitrated(const Finding& finding) {
  if (!finding.arbiter.empty()) return "; the arbiter: " + finding.arbiter;
  return finding.arbiter_silent.empty() ? "" : "; the arbiter was not asked: " + finding.arbiter_silent;
}

std::pair<Replayed, std::string> Compare(const Case& c, const Judged& judged) {
  const CaseResult& result = judged.result;
  const std::string signature = c.finding.Signature();
  if (!result.harness_fault.empty()) return {Replayed::kFault, result.harness_fault};
  if (const Finding* same = FindSignature(result, signature)) {
    return {judged.once.contains(same->Signature()) ? Replayed::kFailsOnce : Replayed::kFails,
            same->what + Arbitrated(*same)};
  }
  if (!result.findings.empty()) {
    const Finding& worst = result.findings.front();
    return {Replayed::kFailsDifferently,
            "was " + signature + ", is " + worst.Signature() + ": " + worst.what};
  }
  if (result.verdict == oracle::Verdict::kSkipped) return {Replayed::kSkipped, result.skip_reason};
  if (result.verdict == oracle::Verdict::kVacuous) {
    return {Replayed::kVacuous, "nothing in it could be judged"};
  }
  double tightest = 0;
  for (const OutputSummary& output : result.outputs) tightest = std::max(tightest, output.tightness);
  return {Replayed::kPasses, Text("largest error/allowed %.3g", tightest)};
}

}  // namespace

CaseRunner& Runners::For(const std::string& target) {
  std::unique_ptr<CaseRunner>& runner = runners_[target];
  if (!runner) {
    WorkerSpec spec;
    spec.target = target;
    spec.program = program_;
    runner = std::make_unique<CaseRunner>(std::move(spec), deadline_, interrupt_);
  }
  return *runner;
}

Replay ReplayCase(const Case& c, CaseRunner* runner) {
  const auto begin = std::chrono::steady_clock::now();
  // The worker is replaced: an earlier case may have damaged the old one.
  runner->Renew();
  Judged judged = runner->RunAndConfirm(RequestForStored(c));
  Replay replay;
  replay.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  replay.kind = judged.kind;
  replay.error = std::move(judged.error);
  if (replay.kind != Judged::Kind::kJudged) return replay;
  std::tie(replay.what, replay.detail) = Compare(c, judged);
  replay.result = std::move(judged.result);
  replay.target_version = runner->hello().version;
  return replay;
}

bool Advance(Case* c, const Replay& replay) {
  const CaseState next = After(c->state, replay.what);
  if (next == c->state) return false;
  Json entry;
  entry["from"] = Name(c->state);
  entry["to"] = Name(next);
  entry["date"] = UtcStamp();
  entry["target_version"] = replay.target_version;
  const Json* known = c->extra.Find("history");
  Json::Array history;
  if (known != nullptr && known->as_array() != nullptr) history = *known->as_array();
  history.push_back(std::move(entry));
  if (history.size() > kHistory) history.erase(history.begin(), history.end() - kHistory);
  c->extra["history"] = std::move(history);
  c->state = next;
  return true;
}

}  // namespace plumbline::fuzz

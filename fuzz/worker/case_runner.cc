// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/case_runner.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/worker/worker.h"

namespace plumbline::fuzz {
namespace {

// ExamineOptions::arbiter_cost takes eight seconds; this deadline leaves room for a busy machine and a
// sanitizer.
constexpr std::chrono::milliseconds kArbiterDeadline{1'200'000};
// The deadline of a case of more than kManyLogits logits, unless the campaign's is later: beyond 2^31
// of them a run of `host`, backward included, and the oracle's sweep take minutes of one core.
constexpr std::chrono::milliseconds kManyLogitsDeadline{1'200'000};
constexpr const char* kArbiterLate = "the arbiter did not come to an end within 20 minutes";

// Returns whether the next case needs a fresh worker. One without memory has none for the next case
// either, and after a fault the worker may be at fault: its device may be lost.
bool SpoilsWorker(const CaseResult& result) {
  return !result.harness_fault.empty() ||
         std::any_of(result.findings.begin(), result.findings.end(),
                     [](const Finding& finding) { return finding.output == kMemoryOutput; });
}

}  // namespace

bool IsDeath(const CaseResult& result) {
  return !result.findings.empty() && (result.findings.front().kind == FindingKind::kCrash ||
                                      result.findings.front().kind == FindingKind::kHang);
}

bool CaseRunner::Ready(std::string* error) {
  if (worker_) return true;
  worker_ = WorkerProcess::Start(spec_, interrupt_, error);
  if (worker_) hello_ = worker_->hello();
  shapes_.clear();
  return worker_ != nullptr;
}

std::chrono::milliseconds CaseRunner::DeadlineOf(const Request& request) const {
  return request.many_logits ? std::max(deadline_, kManyLogitsDeadline) : deadline_;
}

Judged CaseRunner::RunOnce(const Request& request, std::chrono::milliseconds within,
                           const std::function<void()>& meanwhile) {
  Judged judged;
  // A worker that answers at once never makes this thread wait, so the flag is read here too.
  if (interrupt_ != nullptr && interrupt_->load()) {
    judged.kind = Judged::Kind::kInterrupted;
    return judged;
  }
  if (!Ready(&judged.error)) {
    judged.kind = interrupt_ != nullptr && interrupt_->load() ? Judged::Kind::kInterrupted
                                                              : Judged::Kind::kUnavailable;
    return judged;
  }
  const bool first_call = compiles() && shapes_.insert(request.shape).second;
  const std::chrono::milliseconds deadline = first_call ? std::max(within, spec_.first_call) : within;
  Answer answer = worker_->Ask(request, deadline, meanwhile);
  if (answer.kind == Answer::Kind::kResult) {
    judged.result = std::move(answer.result);
    if (SpoilsWorker(judged.result)) Renew();
    return judged;
  }
  worker_.reset();
  judged.signal = answer.signal;
  if (answer.kind == Answer::Kind::kInterrupted) {
    judged.kind = Judged::Kind::kInterrupted;
  } else if (answer.kind == Answer::Kind::kDied) {
    judged.result = FailedWith(FindingKind::kCrash, "", "the worker process died: " + answer.what);
  } else {
    judged.result = FailedWith(FindingKind::kHang, "",
                               "no answer within " + std::to_string(deadline.count()) +
                                   " ms: the worker process " + answer.what);
  }
  return judged;
}

Judged CaseRunner::Run(const Request& request, const std::function<void()>& meanwhile) {
  const std::chrono::milliseconds deadline = DeadlineOf(request);
  Judged first = RunOnce(request, deadline, meanwhile);
  if (first.kind == Judged::Kind::kJudged && first.result.harness_fault == kOutOfMemory) {
    first = RunOnce(request, deadline);
    first.retried = true;
  }
  if (first.kind != Judged::Kind::kJudged || !IsDeath(first.result)) return first;
  Judged second = RunOnce(request, deadline);
  second.retried = true;
  // This target crashes while loading, but only after a crash (a lock file, a lost device): the case in
  // flight keeps its finding, and the next one reports the target as unavailable.
  if (second.kind == Judged::Kind::kInterrupted) return second;
  if (second.kind == Judged::Kind::kJudged && IsDeath(second.result)) return second;
  const bool crash = first.result.findings.front().kind == FindingKind::kCrash &&
                     (first.signal != SIGKILL || Planted(HarnessDefect::kKillIsBlamed));
  if (second.kind == Judged::Kind::kJudged && (!crash || !second.result.harness_fault.empty()))
    return second;
  first.retried = true;
  first.once.insert(first.result.findings.front().Signature());
  first.result.findings.front().what += "; it did not die again when the case was run alone";
  // Findings of the second attempt are added to the death.
  for (Finding& finding : second.result.findings) first.result.findings.push_back(std::move(finding));
  first.result.outputs = std::move(second.result.outputs);
  return first;
}

Judged CaseRunner::Confirm(Request request, Judged first) {
  if (first.kind != Judged::Kind::kJudged || !first.once.empty() || first.result.findings.empty() ||
      IsDeath(first.result) || !first.result.harness_fault.empty()) {
    return first;
  }
  request.arbiter = true;
  Judged second = RunOnce(request, kArbiterDeadline);
  // The worker was killed from outside while the arbiter computed. That says nothing about the target,
  // so the case is asked about once more.
  if (second.kind == Judged::Kind::kJudged && IsDeath(second.result) && second.signal == SIGKILL &&
      second.result.findings.front().kind == FindingKind::kCrash) {
    second = RunOnce(request, kArbiterDeadline);
  }
  if (second.kind != Judged::Kind::kJudged) return second;
  second.retried = first.retried;
  if (IsDeath(second.result) && second.result.findings.front().kind == FindingKind::kHang) {
    first.result.harness_fault = kArbiterLate;
    return first;
  }
  // The target gives other results from run to run: its first findings still count, but as seen once,
  // and there is nothing to ask the arbiter about.
  for (Finding& finding : first.result.findings) {
    std::string signature = finding.Signature();
    if (FindSignature(second.result, signature) != nullptr) continue;
    if (Planted(HarnessDefect::kOnceIsDropped)) continue;
    second.once.insert(std::move(signature));
    finding.what += "; it was not seen again on the same case";
    second.result.findings.push_back(std::move(finding));
    second.result.verdict = VerdictOf(second.result.findings, second.result.verdict);
  }
  return second;
}

Judged CaseRunner::AskOnPass(Request request, Judged first) {
  request.arbiter = request.arbiter_on_pass = true;
  Judged second = RunOnce(request, kArbiterDeadline);
  if (second.kind != Judged::Kind::kJudged) return second;
  second.retried = first.retried;
  // The process was killed from outside, or the arbiter took too long: neither says anything about the
  // target.
  if (IsDeath(second.result)) {
    if (second.result.findings.front().kind == FindingKind::kHang) {
      first.result.harness_fault = kArbiterLate;
      return first;
    }
    if (second.signal == SIGKILL) return first;
  }
  for (Finding& finding : second.result.findings) {
    second.once.insert(finding.Signature());
    finding.what += "; it was not seen before on the same case";
  }
  return second;
}

const Finding* FindSignature(const CaseResult& result, std::string_view signature) {
  for (const Finding& finding : result.findings) {
    if (Means(signature, finding.Signature())) return &finding;
  }
  return nullptr;
}

}  // namespace plumbline::fuzz

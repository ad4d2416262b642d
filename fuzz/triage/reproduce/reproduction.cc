// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/reproduce/reproduction.h"

#include <algorithm>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/units.h"
#include "fuzz/base/version.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;

// A candidate counts as a hang sooner than a campaign's case, or 30 s would be spent on one candidate.
// Candidates take milliseconds; the result is confirmed with the full deadline.
constexpr milliseconds kCandidateDeadline{2'000};
// Where the clock is to have no say, and for a target that compiles or has a device: the first calls of
// a fresh worker take seconds there. A candidate of another finding than a hang seldom hangs.
constexpr milliseconds kAmpleDeadline{20'000};
// The limit of the repeats: fewer must do for a large problem, or for a target that takes seconds to
// load after it died.
constexpr milliseconds kRepeatTime{1'000};
// Where the clock is to have no say. milliseconds::max() overflows when it is compared with
// nanoseconds.
constexpr milliseconds kNoLimit = std::chrono::hours(24 * 365);

HostTensor Ones(std::vector<int64_t> shape) {
  HostTensor ones = HostTensor::Zeros(kernel::DType::kF32, std::move(shape));
  for (int64_t i = 0; i < ones.size(); ++i) ones.SetFloat(i, 1);
  return ones;
}

milliseconds CandidateDeadline(const CaseRunner& runner, bool hangs, bool clock) {
  const bool slow = runner.compiles() || runner.hello().device != "cpu";
  const bool ample = slow || (!clock && !hangs);
  return std::min(runner.deadline(), ample ? kAmpleDeadline : kCandidateDeadline);
}

}  // namespace

Repeats Repeat(int64_t times, std::chrono::milliseconds limit, const std::function<bool()>& fails) {
  const auto begin = std::chrono::steady_clock::now();
  Repeats repeats;
  do {
    repeats.failed += fails() ? 1 : 0;
    ++repeats.of;
  } while (repeats.of < times && std::chrono::steady_clock::now() - begin < limit);
  return repeats;
}

bool MajorityFails(int64_t times, const std::function<bool()>& fails) {
  int64_t yes = 0, no = 0;
  while (2 * yes <= times && 2 * no < times) ++(fails() ? yes : no);
  return 2 * yes > times;
}

Reproduction::Reproduction(const FailingProblem& start, CaseRunner* runner, const BestSoFar& best,
                           bool clock)
    : start_(start),
      runner_(*runner),
      best_(best),
      signature_(start.finding.Signature()),
      hangs_(start.finding.kind == FindingKind::kHang),
      deadline_(CandidateDeadline(*runner, hangs_, clock)),
      repeat_time_(clock ? kRepeatTime : kNoLimit),
      known_({signature_}) {}

bool Reproduction::Note(const Judged& judged) {
  state_ = judged.kind;
  error_ = judged.error;
  return !stopped();
}

void Reproduction::NoteSlips(const OwnedProblem& candidate, const CaseResult& result) {
  for (const Finding& finding : result.findings) {
    // An answer that misses the short deadline may meet the campaign's, so it says little.
    if (finding.kind == FindingKind::kHang || known_.contains(finding.Signature())) continue;
    auto slip = std::find_if(slips_.begin(), slips_.end(), [&](const Slip& known) {
      return known.finding.Signature() == finding.Signature();
    });
    if (slip == slips_.end()) {
      if (slips_.size() == kMostSlips) continue;
      slips_.push_back({candidate, finding});
    } else if (ValueCount(candidate) < ValueCount(slip->problem)) {
      *slip = {candidate, finding};
    }
  }
}

bool Reproduction::FailsOnce(const OwnedProblem& candidate) {
  if (stopped()) return false;
  // The original problem has the campaign's whole deadline. Only smaller candidates have less time.
  const bool is_start = &candidate == &start_.problem;
  const Request request = RequestFor(candidate, start_.seed, start_.finding);
  const Judged judged = runner_.RunOnce(request, is_start ? runner_.DeadlineOf(request) : deadline_);
  if (!Note(judged)) return false;
  std::set<std::string> shown;
  for (const Finding& finding : judged.result.findings) shown.insert(finding.Signature());
  if (is_start) {
    start_fault_ = judged.result.harness_fault;
    if (start_runs_++ == 0) always_ = shown;
    std::erase_if(always_, [&](const std::string& signature) { return !shown.contains(signature); });
    known_.insert(shown.begin(), shown.end());
  }
  const Finding* seen = FindSignature(judged.result, signature_);
  otherwise_ = !shown.empty() && seen == nullptr;
  seen_.insert(shown.begin(), shown.end());
  if (seen != nullptr) {
    last_seen_ = *seen;
    return true;
  }
  if (Planted(HarnessDefect::kSignatureUnpinned) && !judged.result.findings.empty()) return true;
  NoteSlips(candidate, judged.result);
  return false;
}

Repeats Reproduction::Measure() {
  const Repeats repeats =
      Repeat(hangs_ ? 1 : kRepeats, repeat_time_, [&] { return FailsOnce(start_.problem); });
  by_majority_ = !repeats.Always();
  return repeats;
}

bool Reproduction::Fails(const OwnedProblem& candidate) {
  return by_majority_ ? MajorityFails(kRepeats, [&] { return FailsOnce(candidate); })
                      : FailsOnce(candidate);
}

std::optional<Finding> Reproduction::Arbitrate(const OwnedProblem& problem,
                                               std::string_view signature) {
  const Judged judged = runner_.RunAndConfirm(RequestFor(problem, start_.seed, start_.finding));
  if (!Note(judged)) return std::nullopt;
  if (!judged.result.harness_fault.empty()) {
    if (!witness_) {
      harness_fault_ = judged.result.harness_fault;
      witness_ = Describe(problem, start_.finding);
    }
    return std::nullopt;
  }
  const Finding* seen = FindSignature(judged.result, signature);
  if (seen == nullptr || judged.once.contains(seen->Signature())) return std::nullopt;
  return *seen;
}

bool Reproduction::Audit(const OwnedProblem& candidate) {
  if (hangs_) return true;
  const bool blamed = witness_.has_value();
  if (Arbitrate(candidate, signature_)) return true;
  // One clean run proves nothing about a flaky failure. A disagreement between oracle and arbiter
  // counts even if it is seen once.
  return by_majority_ && !stopped() && blamed == witness_.has_value();
}

void Reproduction::Keep(const OwnedProblem& smaller) const {
  if (!best_.file.empty()) {
    std::string ignored;  // the next step, or the end, writes again
    WriteCase(best_.file, Describe(smaller, start_.finding), &ignored);
  }
  if (best_.values != nullptr) best_.values->store(ValueCount(smaller));
}

Reproduction::Confirmation Reproduction::Confirm(const OwnedProblem& problem) {
  runner_.Renew();
  Confirmation confirmed;
  // A flaky finding must be seen twice in a row with the arbiter.
  for (int64_t i = 0; i < (by_majority_ ? kRepeats : 1) && !confirmed.finding && !stopped(); ++i) {
    confirmed.finding = Arbitrate(problem, signature_);
    if (witness_) return confirmed;
  }
  if (stopped()) return confirmed;
  if (hangs_) {
    confirmed.repeats = {confirmed.finding ? 1 : 0, 1};
    return confirmed;
  }
  confirmed.repeats = Repeat(kRepeats, repeat_time_, [&] { return FailsOnce(problem); });
  // The arbiter cannot judge a crash: there is no output.
  if (start_.finding.kind == FindingKind::kCrash && confirmed.repeats.Majority()) {
    confirmed.finding = last_seen_;
  }
  return confirmed;
}

std::vector<std::string> Reproduction::AlsoShows(OwnedProblem problem, bool entropy_gradient) {
  const bool fp32_grads = problem.wanted.fp32_grads;
  if (entropy_gradient && !problem.grad_entropy) problem.grad_entropy = Ones({problem.rows()});
  problem.wanted = {true, true, true, true, fp32_grads};
  const bool needs_gradient = !problem.grad_logprob && (entropy_gradient || !problem.grad_entropy);
  std::set<std::string> signatures;
  const auto run = [&](const OwnedProblem& asked) {
    const Judged judged = runner_.RunOnce(RequestFor(asked, start_.seed, start_.finding), deadline_);
    if (!Note(judged)) return false;
    for (const Finding& finding : judged.result.findings) signatures.insert(finding.Signature());
    return true;
  };
  // A gradient that must be 0 for want of an upstream one need not be with one. What another output
  // shows does not depend on that.
  const bool of_gradient = start_.finding.output.starts_with("grad_");
  if (needs_gradient && of_gradient && !run(problem)) return {};
  // logprob is an output of the one, loss of the other.
  for (const bool reduced : {false, true}) {
    OwnedProblem asked = problem;
    if (reduced != (asked.reduction != kernel::Reduction::kNone)) {
      asked.reduction = reduced ? kernel::Reduction::kSum : kernel::Reduction::kNone;
      asked.grad_logprob.reset();
    }
    if (needs_gradient || (problem.grad_logprob && !asked.grad_logprob)) {
      asked.grad_logprob = Ones(reduced ? std::vector<int64_t>{} : std::vector{asked.rows()});
    }
    if (!run(asked)) break;
  }
  return {signatures.begin(), signatures.end()};
}

Case Reproduction::Describe(OwnedProblem problem, const Finding& finding) const {
  Case c;
  c.problem = std::move(problem);
  c.target = runner_.target();
  c.drawn_by = start_.drawn_by;
  c.recipe = start_.recipe;
  c.finding = finding;
  c.extra["plumb"] = kVersion;
  c.extra["date"] = UtcStamp();
  c.extra["seed"] = std::to_string(start_.seed);
  c.extra["target_version"] = runner_.hello().version;
  return c;
}

}  // namespace plumbline::fuzz

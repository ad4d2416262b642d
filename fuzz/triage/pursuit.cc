// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/pursuit.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/units.h"
#include "fuzz/base/version.h"
#include "fuzz/cases/bucket.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/triage/repeat.h"
#include "fuzz/triage/shrink/explain.h"
#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// While shrinking, a case counts as a hang sooner than in the campaign, or 30 s would be spent on one
// candidate. Candidates take milliseconds; the result is confirmed with the full deadline.
constexpr milliseconds kShrinkDeadline{2'000};
// The limit of the repeats: fewer must do for a large problem, or for a target that takes seconds to
// load after it died.
constexpr milliseconds kRepeatTime{1'000};

std::string FailsText(const Repeats& repeats) {
  return "fails " + std::to_string(repeats.failed) + " of " + std::to_string(repeats.of);
}

// One pursuit. Every question to the target goes through Ask, which notes if the target is not
// available any more.
class Pursuer {
 public:
  Pursuer(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options)
      : start_(start),
        runner_(*runner),
        options_(options),
        signature_(start.finding.Signature()),
        hang_(start.finding.kind == FindingKind::kHang),
        deadline_(std::min(runner->deadline(), kShrinkDeadline)) {}

  Pursued Run();

 private:
  struct Confirmation {
    Repeats repeats;
    std::optional<Finding> finding;
  };

  struct OtherFinding {
    OwnedProblem problem;
    Finding finding;
  };

  // A part of shrink_time, at most a quarter of it.
  milliseconds ExplainTime() const { return std::min(options_.explain_time, options_.shrink_time / 4); }
  bool stopped() const { return state_ != Judged::Kind::kJudged; }
  bool Judge(const Judged& judged);  // false: the target is not available any more
  bool FailsOnce(const OwnedProblem& candidate);
  bool Fails(const OwnedProblem& candidate);
  bool Audit(const OwnedProblem& candidate);
  void NoteSlips(const OwnedProblem& candidate, const CaseResult& result);
  void ConfirmSlips();
  // Returns the finding as the arbiter has confirmed it; nullopt if it was not seen, or the harness is
  // at fault.
  std::optional<Finding> Arbitrate(const OwnedProblem& problem, const std::string& signature);
  OwnedProblem ShrinkIt();
  Confirmation Confirm(const OwnedProblem& problem);
  Case Describe(OwnedProblem problem, const Finding& finding) const;
  // Returns the signatures of the same problem with every output asked for, its own included; sorted.
  std::vector<std::string> AlsoShows(OwnedProblem problem);
  Pursued Finish(OwnedProblem problem, const Repeats& repeats, bool smaller);

  const FailingProblem& start_;
  CaseRunner& runner_;
  const PursuitOptions& options_;
  const std::string signature_;
  const bool hang_;
  const milliseconds deadline_;
  const Clock::time_point begin_ = Clock::now();
  bool by_majority_ = false;
  Finding last_seen_;
  std::set<std::string> known_;  // signatures of the original problem
  std::vector<OtherFinding> others_;
  Judged::Kind state_ = Judged::Kind::kJudged;
  Pursued pursued_;
};

bool Pursuer::Judge(const Judged& judged) {
  state_ = judged.kind;
  pursued_.error = judged.error;
  return !stopped();
}

void Pursuer::NoteSlips(const OwnedProblem& candidate, const CaseResult& result) {
  for (const Finding& finding : result.findings) {
    // An answer that misses the short deadline may meet the campaign's, so it says little.
    if (finding.kind == FindingKind::kHang || known_.contains(finding.Signature())) continue;
    auto other = std::find_if(others_.begin(), others_.end(), [&](const OtherFinding& known) {
      return known.finding.Signature() == finding.Signature();
    });
    if (other == others_.end()) {
      if (others_.size() == kMostSlips) continue;
      others_.push_back({candidate, finding});
    } else if (ValueCount(candidate) < ValueCount(other->problem)) {
      *other = {candidate, finding};
    }
  }
}

bool Pursuer::FailsOnce(const OwnedProblem& candidate) {
  if (stopped()) return false;
  // The original problem has the campaign's whole deadline. Only smaller candidates have less time.
  const bool is_start = &candidate == &start_.problem;
  const Judged judged =
      runner_.RunOnce(RequestFor(candidate, start_.seed), is_start ? runner_.deadline() : deadline_);
  if (!Judge(judged)) return false;
  if (is_start) {
    for (const Finding& finding : judged.result.findings) known_.insert(finding.Signature());
  }
  if (const Finding* seen = FindSignature(judged.result, signature_)) {
    last_seen_ = *seen;
    return true;
  }
  if (Planted(HarnessDefect::kSignatureUnpinned) && !judged.result.findings.empty()) return true;
  NoteSlips(candidate, judged.result);
  return false;
}

void Pursuer::ConfirmSlips() {
  for (OtherFinding& other : others_) {
    if (stopped()) return;
    const auto confirmed = Arbitrate(other.problem, other.finding.Signature());
    if (!confirmed) continue;
    Case c = Describe(std::move(other.problem), *confirmed);
    c.why = "seen while " + signature_ + " was shrunk";
    c.recipe.clear();  // the recipe line shows the other finding
    pursued_.other_findings.push_back(std::move(c));
  }
}

bool Pursuer::Fails(const OwnedProblem& candidate) {
  return by_majority_ ? MajorityFails(kRepeats, [&] { return FailsOnce(candidate); })
                      : FailsOnce(candidate);
}

std::optional<Finding> Pursuer::Arbitrate(const OwnedProblem& problem, const std::string& signature) {
  const Judged judged = runner_.RunAndConfirm(RequestFor(problem, start_.seed));
  if (!Judge(judged)) return std::nullopt;
  if (!judged.result.harness_fault.empty()) {
    if (pursued_.harness_fault.empty()) {
      pursued_.harness_fault = judged.result.harness_fault;
      pursued_.witness = Describe(problem, pursued_.kept.finding);
    }
    return std::nullopt;
  }
  const Finding* seen = FindSignature(judged.result, signature);
  if (seen == nullptr || judged.once.contains(signature)) return std::nullopt;
  return *seen;
}

bool Pursuer::Audit(const OwnedProblem& candidate) {
  const bool blamed = !pursued_.harness_fault.empty();
  if (Arbitrate(candidate, signature_)) return true;
  // One clean run proves nothing about a flaky failure. A disagreement between oracle and arbiter
  // counts even if it is seen once.
  return by_majority_ && !stopped() && blamed == !pursued_.harness_fault.empty();
}

OwnedProblem Pursuer::ShrinkIt() {
  StoredFinding& kept = pursued_.kept;
  ShrinkOptions shrink;
  const auto spent = std::chrono::duration_cast<milliseconds>(Clock::now() - begin_);
  shrink.time_limit = std::max(milliseconds(0), options_.shrink_time - ExplainTime() - spent);
  shrink.should_stop = [&] { return stopped(); };
  shrink.audit = [&](const OwnedProblem& candidate) { return hang_ || Audit(candidate); };
  shrink.on_accept = [&](const OwnedProblem& problem) {
    kept.values_after = ValueCount(problem);
    if (!options_.best_so_far.empty()) {
      std::string ignored;  // the next step, or the end, writes again
      WriteCase(options_.best_so_far, Describe(problem, start_.finding), &ignored);
    }
    if (options_.on_smaller) options_.on_smaller(kept.values_after);
  };
  const ShrinkHint hint{start_.finding.output, start_.finding.row, start_.finding.column};
  ShrinkResult shrunk = Shrink(
      start_.problem, hint, [&](const OwnedProblem& candidate) { return Fails(candidate); }, shrink);
  kept.tried += shrunk.tried;
  kept.accepted = shrunk.accepted;
  kept.complete = shrunk.complete;
  kept.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  kept.values_after = ValueCount(shrunk.problem);
  return std::move(shrunk.problem);
}

Pursuer::Confirmation Pursuer::Confirm(const OwnedProblem& problem) {
  runner_.Renew();
  Confirmation confirmed;
  // A flaky finding must be seen twice in a row with the arbiter.
  for (int64_t i = 0; i < (by_majority_ ? kRepeats : 1) && !confirmed.finding && !stopped(); ++i) {
    confirmed.finding = Arbitrate(problem, signature_);
    if (!pursued_.harness_fault.empty()) return confirmed;
  }
  if (stopped()) return confirmed;
  if (hang_) {
    confirmed.repeats = {confirmed.finding ? 1 : 0, 1};
    return confirmed;
  }
  confirmed.repeats = Repeat(kRepeats, kRepeatTime, [&] { return FailsOnce(problem); });
  // The arbiter cannot judge a crash: there is no output.
  if (start_.finding.kind == FindingKind::kCrash && confirmed.repeats.Majority()) {
    confirmed.finding = last_seen_;
  }
  return confirmed;
}

std::vector<std::string> Pursuer::AlsoShows(OwnedProblem problem) {
  const bool fp32_grads = problem.wanted.fp32_grads;
  problem.wanted = {true, true, true, true, fp32_grads};
  const bool needs_gradient = !problem.grad_logprob && !problem.grad_entropy;
  std::set<std::string> signatures;
  // logprob is an output of the one, loss of the other.
  for (const bool reduced : {false, true}) {
    OwnedProblem asked = problem;
    if (reduced != (asked.reduction != kernel::Reduction::kNone)) {
      asked.reduction = reduced ? kernel::Reduction::kSum : kernel::Reduction::kNone;
      asked.grad_logprob.reset();
    }
    if (needs_gradient || (problem.grad_logprob && !asked.grad_logprob)) {
      HostTensor ones = HostTensor::Zeros(kernel::DType::kF32,
                                          reduced ? std::vector<int64_t>{} : std::vector{asked.rows()});
      for (int64_t i = 0; i < ones.size(); ++i) ones.SetFloat(i, 1);
      asked.grad_logprob = std::move(ones);
    }
    const Judged judged = runner_.RunOnce(RequestFor(asked, start_.seed), deadline_);
    if (!Judge(judged)) break;
    for (const Finding& finding : judged.result.findings) signatures.insert(finding.Signature());
  }
  return {signatures.begin(), signatures.end()};
}

Case Pursuer::Describe(OwnedProblem problem, const Finding& finding) const {
  const StoredFinding& kept = pursued_.kept;
  Case c;
  c.problem = std::move(problem);
  c.target = runner_.target();
  c.why = start_.why;
  c.recipe = start_.recipe;
  c.finding = finding;
  c.extra["plumb"] = kVersion;
  c.extra["date"] = UtcStamp();
  c.extra["seed"] = std::to_string(start_.seed);
  c.extra["target_version"] = runner_.hello().version;
  Json& log = c.extra["shrink"];
  log["values_before"] = kept.values_before;
  log["values_after"] = kept.values_after;
  log["tried"] = kept.tried;
  log["accepted"] = kept.accepted;
  log["complete"] = kept.complete;
  log["seconds"] = kept.seconds;
  if (!kept.note.empty()) log["note"] = kept.note;
  return c;
}

bool TooLarge(const Case& c) { return static_cast<int64_t>(StoredBytes(c).size()) > kMaxCaseBytes; }

// `smaller`: true if the problem was confirmed, and is not the original one.
Pursued Pursuer::Finish(OwnedProblem problem, const Repeats& repeats, bool smaller) {
  StoredFinding& kept = pursued_.kept;
  if (!repeats.Always() && repeats.of > 1) {
    const std::string fails = FailsText(repeats);
    kept.finding.what += "; " + fails;
    kept.note = kept.note.empty() ? fails : fails + "; " + kept.note;
  }
  // A problem that stays large when it is shrunk may still be small as the recipe that it came from.
  if (smaller && TooLarge(Describe(problem, kept.finding)) &&
      !TooLarge(Describe(start_.problem, start_.finding))) {
    problem = start_.problem;
    kept.finding = start_.finding;
    kept.note = "shrunk, it was above the " + std::to_string(kMaxCaseBytes) +
                " bytes of a case file: stored as its recipe";
  }
  kept.values_after = ValueCount(problem);
  // This runs before Explain, which changes one thing after another until something else fails.
  ConfirmSlips();
  Explanation explained;
  Behaviour seen;
  if (smaller && !hang_) {
    seen.also = AlsoShows(problem);
    explained = Explain(
        problem, [&](const OwnedProblem& candidate) { return Fails(candidate); }, ExplainTime());
  }
  if (!stopped()) {
    pursued_.stored = Describe(std::move(problem), kept.finding);
    if (smaller && pursued_.harness_fault.empty()) pursued_.stored.state = CaseState::kConfirmed;
    Json& extra = pursued_.stored.extra;
    seen.rules = explained.rules;
    pursued_.stored.bucket = BucketOf(pursued_.stored.problem, kept.finding, seen);
    if (repeats.of > 0) extra["repeats"] = FailsText(repeats);
    for (std::string& line : explained.lines) extra["explain"].Append(std::move(line));
    for (std::string& signature : seen.also) extra["also"].Append(std::move(signature));
    if (!options_.best_so_far.empty()) {
      std::error_code ignored;
      std::filesystem::remove(options_.best_so_far, ignored);
    }
  }
  if (stopped()) {
    pursued_.kind = state_ == Judged::Kind::kInterrupted ? Pursued::Kind::kInterrupted
                                                         : Pursued::Kind::kUnavailable;
  }
  return std::move(pursued_);
}

Pursued Pursuer::Run() {
  StoredFinding& kept = pursued_.kept;
  kept.finding = start_.finding;
  known_.insert(signature_);
  kept.values_before = kept.values_after = ValueCount(start_.problem);

  const Repeats before =
      Repeat(hang_ ? 1 : kRepeats, kRepeatTime, [&] { return FailsOnce(start_.problem); });
  by_majority_ = !before.Always();
  if (!before.Majority() || stopped()) {
    kept.note = before.failed == 0 ? "not seen again on the same problem: stored as it came"
                                   : "fails too seldom to be shrunk: stored as it came";
    return Finish(start_.problem, before, false);
  }
  for (;;) {
    OwnedProblem problem = ShrinkIt();
    if (stopped()) break;
    const Confirmation confirmed = Confirm(problem);
    if (stopped()) break;
    if (confirmed.finding && confirmed.repeats.Majority()) {
      kept.finding = *confirmed.finding;
      return Finish(std::move(problem), confirmed.repeats, true);
    }
    // A large problem that always fails may contain a small one that fails sometimes.
    if (by_majority_ || hang_ || confirmed.repeats.failed == 0 || !pursued_.harness_fault.empty())
      break;
    by_majority_ = true;
  }
  kept.note = hang_ ? "the small problem ends before the deadline: stored as it came"
                    : "not confirmed on the small problem: stored as it came";
  return Finish(start_.problem, before, false);
}

}  // namespace

Pursued Pursue(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options) {
  return Pursuer(start, runner, options).Run();
}

uint64_t SeedOf(const Case& c) {
  const Json* seed = c.extra.Find("seed");
  std::string ignored;
  return seed != nullptr && seed->as_string() != nullptr
             ? ParseSeed(*seed->as_string(), &ignored).value_or(0)
             : 0;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/pursuit.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "fuzz/campaign_options.h"
#include "fuzz/shrink.h"
#include "fuzz/version.h"

namespace plumbline::fuzz {
namespace {

// While shrinking, a case is taken to hang sooner than in the campaign, or 30 s would see one
// candidate. Cases that shrinking offers take milliseconds; what is left is confirmed against the full
// deadline.
constexpr std::chrono::milliseconds kShrinkDeadline{2'000};

// Everything but the shrinking itself: what a stored case says of its origin.
Case Describe(const FailingProblem& start, OwnedProblem problem, const Finding& finding,
              const CaseRunner& runner, const StoredFinding& kept) {
  Case c;
  c.problem = std::move(problem);
  c.target = runner.target();
  c.why = start.why;
  c.recipe = start.recipe;
  c.finding = finding;
  c.extra["plumb"] = kVersion;
  c.extra["date"] = UtcStamp();
  c.extra["seed"] = std::to_string(start.seed);
  c.extra["target_version"] = runner.hello().version;
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

}  // namespace

Pursued Pursue(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options) {
  const std::string signature = start.finding.Signature();
  const bool hang = start.finding.kind == FindingKind::kHang;
  const auto deadline = std::min(runner->deadline(), kShrinkDeadline);

  Pursued pursued;
  StoredFinding& kept = pursued.kept;
  kept.finding = start.finding;
  kept.values_before = kept.values_after = ValueCount(start.problem);

  // The judge of candidates, until the run is interrupted or the target gone.
  Judged::Kind state = Judged::Kind::kJudged;
  const StillFails still_fails = [&](const OwnedProblem& candidate) {
    const Judged judged = runner->RunOnce(RequestFor(candidate, start.seed), deadline);
    state = judged.kind;
    pursued.error = judged.error;
    return state == Judged::Kind::kJudged && FindSignature(judged.result, signature) != nullptr;
  };

  ShrinkOptions shrink;
  shrink.time_limit = options.shrink_time;
  shrink.should_stop = [&] { return state != Judged::Kind::kJudged; };
  shrink.on_accept = [&](const OwnedProblem& problem) {
    kept.values_after = ValueCount(problem);
    if (!options.best_so_far.empty()) {
      std::string ignored;  // the next step, or the end, writes again
      WriteCase(options.best_so_far, Describe(start, problem, start.finding, *runner, kept), &ignored);
    }
    if (options.on_smaller) options.on_smaller(kept.values_after);
  };
  const ShrinkHint hint{start.finding.output, start.finding.row, start.finding.column};
  ShrinkResult shrunk = Shrink(start.problem, hint, still_fails, shrink);
  kept.tried = shrunk.tried;
  kept.accepted = shrunk.accepted;
  kept.complete = shrunk.complete;
  kept.seconds = shrunk.seconds;
  kept.values_after = ValueCount(shrunk.problem);
  if (state != Judged::Kind::kJudged) {
    pursued.kind =
        state == Judged::Kind::kInterrupted ? Pursued::Kind::kInterrupted : Pursued::Kind::kUnavailable;
    return pursued;
  }

  runner->Renew();
  const Judged last = runner->RunAndConfirm(RequestFor(shrunk.problem, start.seed));
  if (last.kind != Judged::Kind::kJudged) {
    pursued.kind = last.kind == Judged::Kind::kInterrupted ? Pursued::Kind::kInterrupted
                                                           : Pursued::Kind::kUnavailable;
    pursued.error = last.error;
    return pursued;
  }
  pursued.harness_fault = last.result.harness_fault;
  const Finding* confirmed = FindSignature(last.result, signature);
  OwnedProblem problem = std::move(shrunk.problem);
  if (confirmed != nullptr && !last.once.contains(signature)) {
    kept.finding = *confirmed;
  } else if (pursued.harness_fault.empty()) {
    kept.note = kept.accepted == 0 ? "not seen again on the same problem: stored as it came"
                : hang             ? "the small problem ends before the deadline: stored as it came"
                                   : "not confirmed on the small problem: stored as it came";
    problem = start.problem;
    kept.values_after = kept.values_before;
  }
  pursued.stored = Describe(start, std::move(problem), kept.finding, *runner, kept);
  if (kept.note.empty() && pursued.harness_fault.empty()) pursued.stored.state = CaseState::kConfirmed;
  pursued.stored.bucket = BucketOf(pursued.stored.problem, pursued.stored.finding);
  if (!options.best_so_far.empty()) {
    std::error_code ignored;
    std::filesystem::remove(options.best_so_far, ignored);
  }
  return pursued;
}

uint64_t SeedOf(const Case& c) {
  const Json* seed = c.extra.Find("seed");
  std::string ignored;
  return seed != nullptr && seed->as_string() != nullptr
             ? ParseSeed(*seed->as_string(), &ignored).value_or(0)
             : 0;
}

}  // namespace plumbline::fuzz

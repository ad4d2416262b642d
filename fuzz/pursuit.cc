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
Case Describe(const Quarry& quarry, OwnedProblem problem, const Finding& finding,
              const CaseRunner& runner, const Trophy& trophy) {
  Case c;
  c.problem = std::move(problem);
  c.target = runner.target();
  c.why = quarry.why;
  c.recipe = quarry.recipe;
  c.finding = finding;
  c.extra["plumb"] = kVersion;
  c.extra["date"] = UtcStamp();
  c.extra["seed"] = std::to_string(quarry.seed);
  c.extra["target_version"] = runner.hello().version;
  Json& log = c.extra["shrink"];
  log["values_before"] = trophy.values_before;
  log["values_after"] = trophy.values_after;
  log["tried"] = trophy.tried;
  log["accepted"] = trophy.accepted;
  log["complete"] = trophy.complete;
  log["seconds"] = trophy.seconds;
  if (!trophy.note.empty()) log["note"] = trophy.note;
  return c;
}

}  // namespace

Pursued Pursue(const Quarry& quarry, CaseRunner* runner, const PursuitOptions& options) {
  const std::string signature = quarry.finding.Signature();
  const bool hang = quarry.finding.kind == FindingKind::kHang;
  const auto deadline = std::min(runner->deadline(), kShrinkDeadline);

  Pursued pursued;
  Trophy& trophy = pursued.trophy;
  trophy.finding = quarry.finding;
  trophy.values_before = trophy.values_after = ValueCount(quarry.problem);

  // The judge of candidates. Once the run is interrupted or the target gone nothing more is accepted,
  // and the shrinker comes to its end.
  Judged::Kind state = Judged::Kind::kJudged;
  const StillFails still_fails = [&](const OwnedProblem& candidate) {
    if (state != Judged::Kind::kJudged) return false;
    const Judged judged = runner->RunOnce(RequestFor(candidate, quarry.seed), deadline);
    state = judged.kind;
    pursued.error = judged.error;
    return state == Judged::Kind::kJudged && FindSignature(judged.result, signature) != nullptr;
  };

  ShrinkOptions shrink;
  shrink.time_limit = options.shrink_time;
  shrink.on_accept = [&](const OwnedProblem& problem) {
    trophy.values_after = ValueCount(problem);
    if (!options.best_so_far.empty()) {
      std::string ignored;  // the next step, or the end, writes again
      WriteCase(options.best_so_far, Describe(quarry, problem, quarry.finding, *runner, trophy),
                &ignored);
    }
    if (options.on_smaller) options.on_smaller(trophy.values_after);
  };
  const ShrinkHint hint{quarry.finding.output, quarry.finding.row, quarry.finding.column};
  ShrinkResult shrunk = Shrink(quarry.problem, hint, still_fails, shrink);
  trophy.tried = shrunk.tried;
  trophy.accepted = shrunk.accepted;
  trophy.complete = shrunk.complete;
  trophy.seconds = shrunk.seconds;
  trophy.values_after = ValueCount(shrunk.problem);
  if (state != Judged::Kind::kJudged) {
    pursued.kind =
        state == Judged::Kind::kInterrupted ? Pursued::Kind::kInterrupted : Pursued::Kind::kUnavailable;
    return pursued;
  }

  runner->Renew();
  const Judged last = runner->RunAndConfirm(RequestFor(shrunk.problem, quarry.seed));
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
    trophy.finding = *confirmed;
  } else if (pursued.harness_fault.empty()) {
    trophy.note = trophy.accepted == 0 ? "not seen again on the same problem: stored as it came"
                  : hang               ? "the small problem ends before the deadline: stored as it came"
                                       : "not confirmed on the small problem: stored as it came";
    problem = quarry.problem;
    trophy.values_after = trophy.values_before;
  }
  pursued.stored = Describe(quarry, std::move(problem), trophy.finding, *runner, trophy);
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

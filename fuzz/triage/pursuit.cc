// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/pursuit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "fuzz/base/units.h"
#include "fuzz/cases/bucket.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/target/description.h"
#include "fuzz/triage/shrink/explain.h"
#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string FailsText(const Repeats& repeats) {
  return "fails " + std::to_string(repeats.failed) + " of " + std::to_string(repeats.of);
}

// Returns what the shrinker needs to know of a target that compiles for each shape; nullopt for others.
// A candidate that the target would skip needs no compiling.
std::optional<Compiles> CompilesOf(const CaseRunner& runner, kernel::DType dtype) {
  if (!runner.compiles()) return std::nullopt;
  std::string ignored;  // the worker has parsed it
  Compiles compiles;
  compiles.is_new = [&runner, target = ParseDescription(runner.hello().description, &ignored)](
                        const OwnedProblem& candidate) {
    return !runner.shapes().contains(ShapeOf(candidate)) && !(target && WhySkipped(*target, candidate));
  };
  compiles.known = [&runner, dtype] {
    std::vector<std::array<int64_t, 3>> shapes;
    for (const auto& [n, v, h, of] : runner.shapes()) {
      if (of == static_cast<int64_t>(dtype)) shapes.push_back({n, v, h});
    }
    return shapes;
  };
  return compiles;
}

class Pursuer {
 public:
  Pursuer(const FailingProblem& start, CaseRunner* runner, const PursuitOptions& options)
      : start_(start),
        runner_(*runner),
        options_(options),
        reproduction_(start, runner, options.best_so_far, !options.tries) {}

  Pursued Run();

 private:
  // A part of shrink_time. An explanation tries some sixty shapes, each a first call where the target
  // compiles: there it has what shrinking leaves.
  milliseconds ExplainTime() const {
    if (options_.explain_time.count() == 0) return options_.explain_time;
    return runner_.compiles() ? options_.shrink_time / 2
                              : std::min(options_.explain_time, options_.shrink_time / 4);
  }
  void ConfirmSlips();
  milliseconds Spent() const { return std::chrono::duration_cast<milliseconds>(Clock::now() - begin_); }
  Explanation ExplainIt(const OwnedProblem& problem);
  void AddHidden(const OwnedProblem& problem);
  OwnedProblem ShrinkIt();
  void AddShrinkLog(Case* c) const;
  Case Describe(OwnedProblem problem, const Finding& finding) const;
  Pursued Finish(OwnedProblem problem, const Repeats& repeats, bool smaller);

  const FailingProblem& start_;
  const CaseRunner& runner_;
  const PursuitOptions& options_;
  const Clock::time_point begin_ = Clock::now();
  Reproduction reproduction_;
  Pursued pursued_;
  std::string compiled_;  // how shapes limited the shrinking of a target that compiles; else empty
};

void Pursuer::ConfirmSlips() {
  for (const Reproduction::Slip& slip : reproduction_.slips()) {
    if (reproduction_.stopped()) return;
    const auto confirmed = reproduction_.Arbitrate(slip.problem, slip.finding.Signature());
    if (!confirmed) continue;
    Case c = Describe(slip.problem, *confirmed);
    c.drawn_by = "seen while " + reproduction_.signature() + " was shrunk";
    c.recipe.clear();  // the recipe line shows the other finding
    pursued_.other_findings.push_back(std::move(c));
  }
}

OwnedProblem Pursuer::ShrinkIt() {
  StoredFinding& kept = pursued_.kept;
  ShrinkOptions shrink;
  shrink.time_limit = std::max(milliseconds(0), options_.shrink_time - ExplainTime() - Spent());
  if (runner_.compiles()) shrink.time_limit /= 2;  // it takes as much again for first calls
  if (options_.tries) shrink.max_tries = std::max<int64_t>(0, *options_.tries - kept.tried);
  shrink.should_stop = std::bind_front(&Reproduction::stopped, &reproduction_);
  shrink.audit = std::bind_front(&Reproduction::Audit, &reproduction_);
  shrink.on_accept = std::bind_front(&Reproduction::Keep, &reproduction_);
  shrink.compiles = CompilesOf(runner_, start_.problem.hidden.dtype);
  const ShrinkHint hint{start_.finding.output, start_.finding.row, start_.finding.column};
  ShrinkResult shrunk =
      Shrink(start_.problem, hint, std::bind_front(&Reproduction::Fails, &reproduction_), shrink);
  kept.tried += shrunk.tried;
  kept.accepted = shrunk.accepted;
  kept.complete = shrunk.complete;
  if (shrink.compiles && !shrunk.complete) {
    compiled_ = "shapes: shrinking tried " + std::to_string(shrunk.first_calls) +
                " that the target had not compiled, at most " +
                std::to_string(shrink.compiles->first_calls) + "; plumb shrink tries more";
  }
  kept.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  kept.values_after = ValueCount(shrunk.problem);
  return std::move(shrunk.problem);
}

// Fills in what tells the finding's cause.
Explanation Pursuer::ExplainIt(const OwnedProblem& problem) {
  Cause& cause = pursued_.kept.cause;
  cause.also = reproduction_.AlsoShows(problem);
  reproduction_.ForgetSeen();
  milliseconds time = ExplainTime();
  if (runner_.compiles() && time.count() > 0) {
    time = std::max(milliseconds(0), options_.shrink_time - Spent());
  }
  ExplainOptions options{.time = time,
                         .tries = options_.tries,
                         .otherwise = std::bind_front(&Reproduction::otherwise, &reproduction_)};
  if (options.tries) *options.tries /= 2;
  Explanation explained =
      Explain(problem, std::bind_front(&Reproduction::Fails, &reproduction_), options);
  cause.near.assign(reproduction_.seen().begin(), reproduction_.seen().end());
  std::ranges::copy_if(explained.rules, std::back_inserter(cause.rules), [](const std::string& rule) {
    return rule.starts_with('N') || rule.starts_with('V') || rule.starts_with('H');
  });
  cause.any_rules = explained.any_rules;
  cause.needs = NeedsOf(problem);
  if (explained.other_dtype) {
    std::erase_if(cause.needs, [](const std::string& need) { return need == "fp16" || need == "fp32"; });
  }
  return explained;
}

// Adds to what the problem shows what it shows where its plain values hide nothing: a gradient of
// hidden is 0 whatever else is wrong where weight is, a logprob where there is one column, and some
// errors need an upstream gradient of entropy. Such a variant counts if it shows the finding as well.
void Pursuer::AddHidden(const OwnedProblem& problem) {
  std::vector<std::string>& also = pursued_.kept.cause.also;
  OwnedProblem filled = problem;
  if (filled.vocab() == 1) {
    filled.weight.shape[0] = 2;
    filled.weight.bytes.resize(2 * filled.weight.bytes.size());
  }
  for (HostTensor* tensor : {&filled.hidden, &filled.weight}) {
    for (int64_t i = 0; i < tensor->size(); ++i) {
      // Unlike each other and unlike what shrinking leaves: equal columns hide as much as zeros.
      if (tensor->GetFloat(i) == 0) tensor->SetFloat(i, static_cast<float>(9 + 6 * (i % 4)) / 32);
    }
  }
  for (const bool fill : {false, true}) {
    for (const bool entropy_gradient : {false, true}) {
      if (!fill && !entropy_gradient) continue;
      const auto shown = reproduction_.AlsoShows(fill ? filled : problem, entropy_gradient);
      if (std::ranges::find(shown, reproduction_.signature()) == shown.end()) continue;
      for (const std::string& signature : shown) {
        if (std::ranges::find(also, signature) == also.end()) also.push_back(signature);
      }
    }
  }
}

void Pursuer::AddShrinkLog(Case* c) const {
  const Json kept = ToJson(pursued_.kept);
  for (const auto& [key, value] : *kept.as_object()) {
    if (key != "file" && key != "finding" && key != "explain" && key != "cause")
      c->extra["shrink"][key] = value;
  }
}

Case Pursuer::Describe(OwnedProblem problem, const Finding& finding) const {
  Case c = reproduction_.Describe(std::move(problem), finding);
  AddShrinkLog(&c);
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
  // A small problem has too few elements to tell one rounding from another.
  kept.finding.shortcut = kept.finding.kind == start_.finding.kind ? start_.finding.shortcut : "";
  // This runs before Explain, which changes one thing after another until something else fails.
  ConfirmSlips();
  Explanation explained;
  Behaviour seen;
  if (smaller && !reproduction_.hangs()) {
    explained = ExplainIt(problem);
    if (!compiled_.empty()) explained.lines.push_back(compiled_);
    seen.also = kept.cause.also;
    kept.explain = explained.lines;
    AddHidden(problem);
  } else {
    // What fails as seldom as the finding stays with it; what always fails can be shrunk by itself.
    for (const std::string& signature : reproduction_.known()) {
      if (repeats.Always() || !reproduction_.always().contains(signature))
        kept.cause.also.push_back(signature);
    }
  }
  pursued_.harness_fault = reproduction_.harness_fault();
  pursued_.witness = reproduction_.witness();
  if (pursued_.witness) AddShrinkLog(&*pursued_.witness);
  pursued_.kind = reproduction_.state();
  pursued_.error = reproduction_.error();
  if (reproduction_.stopped()) return std::move(pursued_);
  pursued_.stored = Describe(std::move(problem), kept.finding);
  if (smaller && !pursued_.witness) pursued_.stored.state = CaseState::kConfirmed;
  Json& extra = pursued_.stored.extra;
  seen.rules = explained.rules;
  pursued_.stored.bucket = BucketOf(pursued_.stored.problem, kept.finding, seen);
  if (repeats.of > 0) extra["repeats"] = FailsText(repeats);
  for (std::string& line : explained.lines) extra["explain"].Append(std::move(line));
  for (std::string& signature : seen.also) extra["also"].Append(std::move(signature));
  if (!options_.best_so_far.file.empty()) {
    std::error_code ignored;
    std::filesystem::remove(options_.best_so_far.file, ignored);
  }
  return std::move(pursued_);
}

Pursued Pursuer::Run() {
  StoredFinding& kept = pursued_.kept;
  kept.finding = start_.finding;
  kept.values_before = kept.values_after = ValueCount(start_.problem);

  const Repeats before = reproduction_.Measure();
  if (before.failed == 0 && !reproduction_.start_fault().empty()) {
    kept.note = "it could not be run again: " + reproduction_.start_fault() + ": stored as it came";
    return Finish(start_.problem, {}, false);
  }
  if (!before.Majority() || reproduction_.stopped()) {
    kept.note = before.failed == 0 ? "not seen again on the same problem: stored as it came"
                                   : "fails too seldom to be shrunk: stored as it came";
    return Finish(start_.problem, before, false);
  }
  if (reproduction_.by_magnitude()) {
    // A smaller problem has other honest errors, and the shrinker's values are none to judge by.
    kept.note = "judged by the errors of honest kernels: stored as it came";
    return Finish(start_.problem, before, false);
  }
  for (;;) {
    OwnedProblem problem = ShrinkIt();
    if (reproduction_.stopped()) break;
    const Reproduction::Confirmation confirmed = reproduction_.Confirm(problem);
    if (reproduction_.stopped()) break;
    if (confirmed.finding && confirmed.repeats.Majority()) {
      kept.finding = *confirmed.finding;
      return Finish(std::move(problem), confirmed.repeats, true);
    }
    // A large problem that always fails may contain a small one that fails sometimes.
    if (reproduction_.by_majority() || reproduction_.hangs() || confirmed.repeats.failed == 0 ||
        reproduction_.witness()) {
      break;
    }
    reproduction_.DecideByMajority();
  }
  kept.note = reproduction_.hangs() ? "the small problem ends before the deadline: stored as it came"
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

Request RequestForStored(const Case& c) { return RequestFor(c.problem, SeedOf(c), c.finding); }

FailingProblem StartFrom(Case c, Finding finding) {
  const uint64_t seed = SeedOf(c);
  return {.problem = std::move(c.problem),
          .finding = std::move(finding),
          .recipe = std::move(c.recipe),
          .drawn_by = std::move(c.drawn_by),
          .seed = seed};
}

}  // namespace plumbline::fuzz

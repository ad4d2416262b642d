// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/shrink.h"

#include <algorithm>
#include <utility>

#include "fuzz/triage/shrink/passes.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {
namespace {


bool NeutraliseCoarsely(ShrinkSession& session) {
  const OwnedProblem& p = session.best();
  return Neutralise(session, Coarse(std::max({p.rows(), p.vocab(), p.hidden_size()})));
}

bool Coarsely(ShrinkSession& session) {
  bool changed = SimplifyOptions(session);
  changed |= KeepOneRow(session);
  for (const Axis axis : kAxes) {
    changed |= KeepFew(session, axis);
    changed |= KeepResidues(session, axis);
    changed |= DeleteChunks(session, axis, Coarse(Extent(session.best(), axis)));
  }
  changed |= Fold(session);
  changed |= SimplifyTensors(session);
  changed |= NeutraliseCoarsely(session);
  return changed;
}

bool Finely(ShrinkSession& session) {
  bool changed = false;
  for (const Axis axis : kAxes) changed |= DeleteChunks(session, axis, 1);
  changed |= Neutralise(session, 1);
  changed |= LowerLabels(session);
  changed |= ShiftColumns(session);
  changed |= Rescale(session);
  changed |= SimplifyDuplicates(session);
  changed |= RedistributePairs(session);
  changed |= SimplifyElements(session);
  return changed;
}

// Reaches a small shape by few first calls. What follows changes the values of that shape.
void ShrinkByFewShapes(ShrinkSession& session, const Compiles& compiles) {
  session.AllowFirstCalls(0);
  while (SimplifyOptions(session) || SimplifyTensors(session) || NeutraliseCoarsely(session)) {
  }
  while (KeepKnownShape(session, compiles.known())) {
  }
  SpendFirstCalls(session, compiles.first_calls);
  session.AllowFirstCalls(0);
}

}  // namespace

ShrinkResult Shrink(const OwnedProblem& problem, const ShrinkHint& hint, const StillFails& still_fails,
                    const ShrinkOptions& options) {
  ShrinkSession session(problem, FocusOf(hint, problem), still_fails, options);
  if (session.Confirm()) {
    if (options.compiles) {
      ShrinkByFewShapes(session, *options.compiles);
    } else {
      KeepCorner(session, session.best());
    }
    bool focused = true;
    while (!session.Exhausted()) {
      // Fine passes run only when coarse ones find nothing more.
      if (Coarsely(session) || Finely(session) || Trade(session)) continue;
      // The loop runs once more without the hint: a part that only the hint kept is not needed.
      if (std::exchange(focused, false)) {
        session.Forget();
        continue;
      }
      if (KeepCorner(session, session.best())) continue;
      session.Complete();
      break;
    }
  }
  return session.result();
}

}  // namespace plumbline::fuzz

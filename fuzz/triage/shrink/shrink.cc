// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/shrink.h"

#include <algorithm>
#include <utility>

#include "fuzz/triage/shrink/passes.h"
#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {
namespace {

constexpr Axis kAxes[] = {Axis::kRows, Axis::kVocab, Axis::kHidden};

// Coarse runs and chunks have 1/16 of the extent, so a pass costs about 32 tries for any size.
int64_t Coarse(int64_t extent) { return std::max<int64_t>(1, extent / 16); }

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
  const OwnedProblem& p = session.best();
  changed |= Neutralise(session, Coarse(std::max({p.rows(), p.vocab(), p.hidden_size()})));
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

}  // namespace

ShrinkResult Shrink(const OwnedProblem& problem, const ShrinkHint& hint, const StillFails& still_fails,
                    const ShrinkOptions& options) {
  ShrinkSession session(problem, FocusOf(hint, problem), still_fails, options);
  if (session.Confirm()) {
    KeepCorner(session, session.best());
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

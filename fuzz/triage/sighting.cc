// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

void Fields(FieldVisitor& io, StoredFinding& kept) {
  io.AllowUnknown();
  io("finding", kept.finding);
  io.AllowAbsent();
  io("file", kept.file);
  io("values_before", kept.values_before);
  io("values_after", kept.values_after);
  io("tried", kept.tried);
  io("accepted", kept.accepted);
  io("complete", kept.complete);
  io("seconds", kept.seconds);
  io.IfSet("note", kept.note);
  io.IfSet("explain", kept.explain);
  if (io.Has("cause", kept.cause != Cause{})) io("cause", kept.cause);
}

void Fields(FieldVisitor& io, Sighting& sighting) {
  io.AllowUnknown();
  io("target", sighting.target);
  if (sighting.target.empty()) io.Wrong("target", "a target's name");
  io("signature", sighting.signature);
  if (sighting.signature.empty()) io.Wrong("signature", "a signature");
  io("finding", sighting.finding);
  io.AllowAbsent();
  io("item", sighting.item);
  io("recipe", sighting.recipe);
  io.IfSet("source", sighting.source);
  io("regime", sighting.regime);
  io("seconds", sighting.seconds);
  io("reproduced", sighting.reproduced);
  io.IfSet("part_of", sighting.part_of);
  io.IfSet("more", sighting.more);
  io.IfSet("kept", sighting.kept);
}

}  // namespace plumbline::fuzz

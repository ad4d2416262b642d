// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/cause.h"

namespace plumbline::fuzz {

void Fields(FieldVisitor& io, Cause& cause) {
  io.AllowUnknown();
  io.IfSet("also", cause.also);
  io.IfSet("near", cause.near);
  io.IfSet("rules", cause.rules);
  io.IfSet("any_rules", cause.any_rules);
  io.IfSet("needs", cause.needs);
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// host-hopper as a plug-in: what tests/blind_mutants/run links a mutant's objects with.

#include "fuzz/builtin/host_hopper.h"

#include "fuzz/target_abi.h"

extern "C" [[gnu::visibility("default")]] const plumbline_target_v1* plumbline_target() {
  return plumbline::fuzz::HostHopperTarget();
}

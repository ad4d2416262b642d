// SPDX-License-Identifier: Apache-2.0
//
// Runs a target in the memory of its device, on a problem that lies in host memory. The host memory is
// copied to the device, the target gets pointers into the copy, and the result is copied back. So guard
// bands, poison and inputs are checked on the host, by the code that checks them for every target.
//
// For a target with the split form (forward and backward apart) the harness provides workspace and
// saved state. They lie between guard bands and are filled with 0xff before each of the two calls. That
// is NaN in every dtype, so a partial result that nobody wrote shows.

#pragma once

#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/target/target.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct DeviceOutcome {
  RunOutcome run;
  std::vector<Placement::Damage> damage;  // around workspace and saved state
};

// All targets passed here have a device. The functions throw DeviceLost, or DeviceFull before anything
// has run.

// Copies all of the placement, guard bands included. If its strides leave long gaps, these are zeros on
// the device and are not copied back. `held_up` delays the stream for a moment before the copies, so
// that work which the target puts on another stream runs too early.
DeviceOutcome RunOnDevice(const Target& target, bool held_up, Placement* placement);

// Copies every tensor by itself, from its first element to its last, the gaps between rows included.
DeviceOutcome RunOnDevice(const Target& target, const kernel::Problem& problem,
                          const kernel::Results& results);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// A target run in the memory of its device, on a problem that lies in host memory: what host memory
// holds is copied over, the target is given pointers into the copy, and what it left is copied back. So
// guard bands, poison and inputs are looked at on the host, with the code that looks at any target's.
//
// Where a target has the split form (forward and backward apart), the harness provides workspace and
// saved state: between guard bands, and full of 0xff before each of the two calls, which is NaN in
// every dtype, so that a partial result which nobody wrote shows.

#ifndef PLUMBLINE_FUZZ_EXAMINE_DEVICE_RUN_H_
#define PLUMBLINE_FUZZ_EXAMINE_DEVICE_RUN_H_

#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/target/target.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

struct DeviceOutcome {
  RunOutcome run;
  std::vector<Placement::Damage> damage;  // around workspace and saved state
};

// All of them: the target has a device. They throw DeviceLost, and DeviceFull before anything has run.

// All that the placement shows, guard bands included; where its strides leave long gaps, these are
// zeros on the device and not copied back. `held_up`: the stream is kept waiting for a moment before
// the copies, so that work which the target puts on another stream comes too early.
DeviceOutcome RunOnDevice(const Target& target, bool held_up, Placement* placement);

// Every tensor by itself, from its first element to its last; what lies between rows is copied too.
DeviceOutcome RunOnDevice(const Target& target, const kernel::Problem& problem,
                          const kernel::Results& results);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_EXAMINE_DEVICE_RUN_H_

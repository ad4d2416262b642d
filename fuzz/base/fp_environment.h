// SPDX-License-Identifier: Apache-2.0
//
// The floating-point environment that every result here rests on: round to nearest, subnormals kept.
// A library linked with -ffast-math switches subnormals off for the thread that loads it (its start-up
// code sets FTZ and DAZ), so a worker restores the environment after loading a target.

#pragma once

#include <string>

namespace plumbline::fuzz {

// Says what is wrong with this thread's environment; empty if nothing is. It is found by computing, not
// by reading control registers, so an emulator's or a compiler flag's effect is seen as well.
std::string FpEnvironmentFault();

// Sets this thread to round to nearest, keep subnormals and take no traps.
void RestoreFpEnvironment();

}  // namespace plumbline::fuzz

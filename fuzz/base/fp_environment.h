// SPDX-License-Identifier: Apache-2.0
//
// The floating-point environment that every result here rests on: round to nearest, subnormals kept.
// A library linked with -ffast-math switches subnormals off for the thread that loads it (its start-up
// code sets FTZ and DAZ), so a worker restores the environment after loading a target.

#ifndef PLUMBLINE_FUZZ_BASE_FP_ENVIRONMENT_H_
#define PLUMBLINE_FUZZ_BASE_FP_ENVIRONMENT_H_

#include <string>

namespace plumbline::fuzz {

// What is wrong with this thread's environment; empty if nothing. Found by computing, not by reading
// control registers, so it also sees an emulator or a compiler flag.
std::string FpEnvironmentFault();

// Round to nearest, subnormals kept, no traps, on this thread.
void RestoreFpEnvironment();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_FP_ENVIRONMENT_H_

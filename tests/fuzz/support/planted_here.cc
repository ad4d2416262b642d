// SPDX-License-Identifier: Apache-2.0
//
// The defect of a program that tests/fuzz/mutants.cmake builds.

#include "fuzz/base/harness_defect.h"

namespace plumbline::fuzz {

const HarnessDefect kPlantedHere = HarnessDefect::PLUMBLINE_HARNESS_DEFECT;

}  // namespace plumbline::fuzz

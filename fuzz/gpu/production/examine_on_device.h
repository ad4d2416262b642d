// SPDX-License-Identifier: Apache-2.0
//
// Examines a case of production size where it lies. The device expands the recipe, gives the problem to
// the targets, and judges what they make of it by one evaluation of the oracle
// (oracle/cuda/device_oracle.h). The checks are those of fuzz/examine/examine.h but the last two:
//
//   * no row is run alone;
//   * instead of the arbiter, the sweep on the host computes rows again: two rows of one case in ten,
//     and with ExamineOptions::arbiter the row of each output's worst failing element. The two oracles
//     disagreeing is a fault of the harness. `arbitrated` counts the rows.

#pragma once

#include <span>
#include <string>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// Returns an empty text, or why no case can be examined: the build, the device, its cuBLAS, or a target
// that runs on the CPU.
std::string WhyNoProduction(const Target& target);

// The targets, at least one, are on the current CUDA device, and their descriptions differ in the name
// alone. All memory is given back at the end, so that other workers find it. Throws DeviceLost, and
// std::runtime_error if the device has too little memory or the recipe has no form there
// (WhyNotOnDevice).
CaseResult ExamineOnDevice(const Recipe& recipe, std::span<const Target* const> targets,
                           const ExamineOptions& options);

}  // namespace plumbline::fuzz

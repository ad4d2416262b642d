// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/infer/infer.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// Runs the target once on each recipe, one in a line, and keeps what it gives. What it declines, or
// refuses, is left out; no case begins once `within` has passed, and *left counts those that did not.
std::vector<InferenceCase> CollectCases(std::string_view recipes, const Target& target, bool same_shape,
                                        std::chrono::milliseconds within, int64_t* left);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fuzz/infer/infer.h"

namespace plumbline::fuzz {

// A line for each shortcut, with its evidence and what declares it, and one for what no set explains.
std::string InferenceText(const Inference& inference);

}  // namespace plumbline::fuzz

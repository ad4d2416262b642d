// SPDX-License-Identifier: Apache-2.0
//
// What a campaign's targets are held to where they declare nothing (fuzz/infer/INFERENCE.md).

#pragma once

#include <optional>
#include <string>

#include "fuzz/base/exit_status.h"
#include "fuzz/campaign/options.h"
#include "fuzz/cli/console.h"

namespace plumbline::fuzz {

// Holds each target that declares no contract to what can be inferred of it, and says so. `infer`: of
// Python targets if absent, else of all or of none. Returns kClean, or the status to end with and why.
ExitStatus InferContracts(const std::optional<bool>& infer, const Console& console,
                          CampaignOptions* options, std::string* error);

}  // namespace plumbline::fuzz

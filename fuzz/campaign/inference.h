// SPDX-License-Identifier: Apache-2.0
//
// Asks a worker which shortcuts a target takes, before a campaign of it begins
// (fuzz/infer/INFERENCE.md).

#pragma once

#include <atomic>
#include <string>

#include "fuzz/base/exit_status.h"
#include "fuzz/campaign/options.h"
#include "fuzz/infer/infer.h"

namespace plumbline::fuzz {

inline constexpr size_t kInferenceCases = 192;
inline constexpr int64_t kInferenceShapes = 10;

// The contract that a target is held to whose own description says nothing of its arithmetic but the
// dtypes of its outputs, which are seen: kUndeclared, and these. *contract is empty where it says more.
// Returns kClean, or why the target is not available.
ExitStatus UndeclaredContract(const CampaignOptions& options, const std::string& target,
                              const std::atomic<bool>& interrupt, std::string* contract,
                              std::string* error);

// `target` is held to that contract. Never fails: `incomplete` says why nothing can be said, a crash of
// the target among others. Cases are those of the campaign's seed, in at most kInferenceShapes shapes.
Inference InferFor(const CampaignOptions& options, const std::string& target,
                   const std::atomic<bool>& interrupt);

}  // namespace plumbline::fuzz

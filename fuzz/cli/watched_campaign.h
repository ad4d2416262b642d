// SPDX-License-Identifier: Apache-2.0
//
// Runs a campaign whose results are printed once it has ended, as a gate's and a comparison's are.

#pragma once

#include <functional>

#include "fuzz/campaign/campaign.h"
#include "fuzz/cli/console.h"

namespace plumbline::fuzz {

// Runs it to its end: `tell` is called with each event, and progress is printed between them.
CampaignSummary RunWatched(CampaignOptions options, const Console& console,
                           const std::function<void(const CampaignEvent&)>& tell);

// Prints a fault of the harness, and where it is kept.
void SayFault(const CampaignEvent& fault, const Console& console);

}  // namespace plumbline::fuzz

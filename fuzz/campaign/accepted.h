// SPDX-License-Identifier: Apache-2.0
//
// Which findings of a campaign are accepted (fuzz/campaign/known.h). A finding and each of its parts is
// accepted by itself, by its signature or by the bucket of the case that shows it.

#pragma once

#include <atomic>
#include <cstddef>
#include <map>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/search/plan.h"
#include "fuzz/campaign/search/search.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

// Returns what CampaignSummary::accepted is to be. Reads the cases that the campaign has stored.
std::map<SightingKey, size_t> AcceptedOf(const CampaignSummary& summary);

// Shrinks every other case of a gate that shows what is accepted by a bucket. What was accepted is no
// more, and the finding's note says why, if one of them is of a bucket that is not accepted, or if they
// are too many. The case of another bucket is stored in findings/.
void KeepOneBucket(const Plan& plan, Search* search, const std::atomic<bool>& interrupt,
                   CampaignSummary* summary);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Prints a campaign as text for a person: a finding, the summary. The last line is for
// a machine.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/table.h"
#include "fuzz/campaign/campaign.h"
#include "fuzz/cli/console.h"
#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

// Returns "plumb: verdict=clean cases=1234 judged=1200 findings=0 status=0". The keys are part of the
// interface; further keys may be added.
std::string VerdictLine(ExitStatus status, const Counts& counts);

// Returns the text of a stored finding: its effect, what it takes, how far it reaches, how small it
// became, and two lines that reproduce it. `purpose`: what the regime that drew it is for. `program`:
// how this program was called. `production`: as in CaseOptions.
std::string FindingBlock(const RankedFinding& finding, int64_t number, std::string_view purpose,
                         std::string_view program, const std::filesystem::path& out, bool production);

// Returns a line for each finding that is accepted, with the reason, for each case that was stored
// beside the findings, and for each file of the corpus that could not be read.
std::string NotesText(const CampaignSummary& summary);

// Returns the numbers of a campaign's last line.
Counts CountsOf(const CampaignSummary& summary);

// Returns the text at the end of a campaign, without the verdict line.
std::string SummaryText(const CampaignSummary& summary, std::string_view program, bool verbose);

}  // namespace plumbline::fuzz

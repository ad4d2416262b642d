// SPDX-License-Identifier: Apache-2.0
//
// The results of a gate: as JUnit XML, one test case for every stored case, every regime and every
// accepted finding; and as text. Times apart, they depend on the gate's options and its target alone.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/campaign/campaign.h"
#include "fuzz/cli/junit.h"

namespace plumbline::fuzz {

struct GateOutcome {
  CampaignSummary summary;       // its status is that of the gate
  std::filesystem::path known;   // the file of the accepted findings; empty: none
  std::vector<size_t> fixed;     // entries that fail the gate, as they no longer do
  std::vector<size_t> not_seen;  // entries that may be fixed: too little was looked at to say so
};

// Compares what was found with what is accepted, and sets the status.
GateOutcome OutcomeOf(CampaignSummary summary, std::filesystem::path known);

// Reads the journal in summary.options.out.
std::vector<JUnitCase> GateResults(const GateOutcome& outcome);

// The text at the end, without the verdict line. `program`: how this program was called.
std::string GateText(const GateOutcome& outcome, std::string_view program);

}  // namespace plumbline::fuzz

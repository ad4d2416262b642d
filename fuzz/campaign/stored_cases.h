// SPDX-License-Identifier: Apache-2.0
//
// The stored cases that a campaign replays first.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/options.h"

namespace plumbline::fuzz {

struct StoredCases {
  std::vector<std::filesystem::path> files;  // in their order
  CorpusStamp stamp;
  std::vector<std::string> unreadable;  // "PATH: why", one line each
};

// Returns every case below options.corpus; none if that is empty. nullopt, with the reason, if none can
// be read, or if options.corpus_stamp is of a campaign that began with others.
std::optional<StoredCases> ListStoredCases(const CampaignOptions& options, std::string* error);

}  // namespace plumbline::fuzz

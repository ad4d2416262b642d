// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/watched_campaign.h"

#include <chrono>
#include <utility>
#include <vector>

#include "fuzz/cli/report_text.h"

namespace plumbline::fuzz {

CampaignSummary RunWatched(CampaignOptions options, const Console& console,
                           const std::function<void(const CampaignEvent&)>& tell) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPatience{200}, kStatusEvery{10'000};
  Campaign campaign(std::move(options), *console.interrupt);
  std::vector<CampaignEvent> events;
  milliseconds next = kStatusEvery;
  while (campaign.Next(kPatience, &events)) {
    for (const CampaignEvent& event : events) tell(event);
    if (!events.empty()) continue;
    const Progress progress = campaign.GetProgress();
    if (progress.elapsed < next) continue;
    console.Say(StatusLine(progress) + "\n");
    next = progress.elapsed + kStatusEvery;
  }
  return campaign.Finish();
}

void SayFault(const CampaignEvent& fault, const Console& console) {
  console.Say("FAULT OF THE HARNESS: " + fault.text + "\n  see " + fault.file.string() + "\n");
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/watched_campaign.h"

#include <chrono>
#include <utility>
#include <vector>

#include "fuzz/cli/progress_printer.h"

namespace plumbline::fuzz {

CampaignSummary RunWatched(CampaignOptions options, const Console& console,
                           const std::function<void(const CampaignEvent&)>& tell) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPatience{200};
  Campaign campaign(std::move(options), *console.interrupt);
  ProgressPrinter printer(console);
  std::vector<CampaignEvent> events;
  while (campaign.Next(kPatience, &events)) {
    if (events.empty()) {
      printer.Show(campaign.GetProgress());
      continue;
    }
    printer.Clear();
    for (const CampaignEvent& event : events) tell(event);
  }
  printer.Clear();
  return campaign.Finish();
}

void SayFault(const CampaignEvent& fault, const Console& console) {
  console.Say("FAULT OF THE HARNESS: " + fault.text + "\n  see " + fault.file.string() + "\n");
}

}  // namespace plumbline::fuzz

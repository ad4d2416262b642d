// SPDX-License-Identifier: Apache-2.0
//
// The decisions in which a gate differs from a hunt: no clock and no order of arrival has a say.

#include <algorithm>
#include <utility>

#include "fuzz/campaign/worker_pool.h"

namespace plumbline::fuzz {

void ItemGroup::Note(const Judged& judged) {
  for (const Finding& finding : judged.result.findings) {
    if (judged.once.contains(finding.Signature())) continue;
    seen.insert(finding.Signature());
    explained = explained || !finding.shortcut.empty();
  }
}

void WorkerPool::Record(Finished finished) {
  if (!options_.gate) return RecordNow(finished);
  const int64_t number = finished.item.number;
  in_order_.Add(number, std::move(finished), [this](const Finished& next) { RecordNow(next); });
}

// In a gate each group asks about its own first case: the campaign's first is not known yet.
bool WorkerPool::ShowsNew(const Item& item, const CaseResult& result, const ItemGroup& group) {
  if (!options_.gate) return campaign_state_.ShowsNew(item, result);
  return std::ranges::any_of(result.findings, [&](const Finding& finding) {
    return !group.seen.contains(finding.Signature());
  });
}

// In a gate the group alone decides, as above.
bool WorkerPool::MayHideAnother(const Item& item, const CaseResult& result, const ItemGroup& group) {
  if (options_.production) return false;
  if (!options_.gate) return campaign_state_.MayHideAnother(item, result);
  return group.explained && MayBeUnexplained(result, [&](const std::string& signature) {
           return group.seen.contains(signature);
         });
}

bool WorkerPool::AskOnPass(const Item& item, double seconds) {
  if (options_.gate) return DueInGate(item.seed, item.arbiter_cost);
  return schedules_[item.target].Due(item.regime, item.arbiter_cost, seconds, begin_.Lap());
}

}  // namespace plumbline::fuzz

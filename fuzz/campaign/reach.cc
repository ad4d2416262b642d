// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/reach.h"

#include <algorithm>

#include "fuzz/triage/severity.h"

namespace plumbline::fuzz {

void Reach::Add(const CaseRecord& record) {
  if (!record.Judged()) return;
  ++judged_;
  for (const auto& [output, counts] : record.by_output) ++cases_[output];
  for (const std::string& signature : record.signatures) ++signatures_[signature];
}

ReachShare Reach::Of(std::string_view signature) const {
  if (signature.ends_with(kOnce)) signature.remove_suffix(kOnce.size());
  ReachShare share;
  if (const auto at = signatures_.find(signature); at != signatures_.end()) share.showed = at->second;
  const auto with_output = cases_.find(OutputOf(signature));
  // An output that was seen to differ from itself may have no element that was judged.
  share.of = std::max(share.showed, with_output != cases_.end() ? with_output->second : judged_);
  return share;
}

}  // namespace plumbline::fuzz

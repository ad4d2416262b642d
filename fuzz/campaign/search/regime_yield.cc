// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/regime_yield.h"

#include "fuzz/campaign/search/assurance.h"

namespace plumbline::fuzz {

void AddTo(RegimeYields* yields, const CaseRecord& record, bool blind, int64_t new_cells) {
  RegimeYield& yield = (*yields)[record.regime];
  ++yield.cases;
  yield.seconds += static_cast<double>(record.us) * 1e-6;
  yield.new_cells += new_cells;
  for (const auto& [output, tightness] : record.tightness) {
    if (!(tightness <= yield.tightness)) yield.tightness = tightness;
  }
  if (!record.Judged()) return;
  const bool suspect = record.verdict == oracle::Verdict::kSuspect;
  const int64_t failed = suspect || record.verdict == oracle::Verdict::kFail ? 1 : 0;
  yield.fail += failed;
  if (!blind) return;
  ++yield.blind;
  yield.blind_fail += failed;
}

Json ToJson(const RegimeYields& yields, const std::map<std::string, int64_t>& findings) {
  Json json = Json(Json::Object{});
  for (const auto& [regime, yield] : yields) {
    const auto found = findings.find(regime);
    Json& row = json[regime] =
        Json::Object{{"cases", yield.cases},
                     {"seconds", yield.seconds},
                     {"fail", yield.fail},
                     {"findings", found != findings.end() ? found->second : int64_t{0}},
                     {"new_cells", yield.new_cells},
                     {"tightness", yield.tightness},
                     {"blind", yield.blind}};
    if (yield.blind > 0 && yield.blind_fail == 0) row["fails_below"] = RuleOfThree(yield.blind);
  }
  return json;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/archive.h"

namespace plumbline::fuzz {

double Archive::Add(size_t target, const CaseRecord& record, const Recipe& recipe) {
  if (!record.Judged()) return 0;
  double gain = 0;
  const CaseClass& c = record.case_class;
  for (const auto& [output, tightness] : record.tightness) {
    if (!(tightness > 0 && tightness <= 1)) continue;
    const std::string niche = std::to_string(target) + " " + output + " " + c.name + " " + c.aim + " " +
                              c.dtype + " " + c.grads;
    Elite& elite = elites_[niche];
    if (tightness <= elite.tightness) continue;
    gain += tightness - elite.tightness;
    elite = {tightness, recipe};
  }
  return gain;
}

}  // namespace plumbline::fuzz

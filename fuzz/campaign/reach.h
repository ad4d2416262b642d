// SPDX-License-Identifier: Apache-2.0
//
// How far a finding reaches on one target: the share of the judged cases that could show its signature,
// because they have its output, and did.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fuzz/campaign/search/record.h"

namespace plumbline::fuzz {

struct ReachShare {
  int64_t showed = 0, of = 0;
  double Share() const { return of > 0 ? static_cast<double>(showed) / static_cast<double>(of) : 0; }
};

class Reach {
 public:
  void Add(const CaseRecord& record);
  // Every judged case could show a signature that names no output (a crash, a status).
  ReachShare Of(std::string_view signature) const;

 private:
  int64_t judged_ = 0;
  std::map<std::string, int64_t> cases_;                    // by output that was judged
  std::map<std::string, int64_t, std::less<>> signatures_;  // cases that showed it
};

}  // namespace plumbline::fuzz

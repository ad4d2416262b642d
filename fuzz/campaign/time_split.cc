// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/time_split.h"

#include <algorithm>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {

Json ToJson(const TimeSplit& time) {
  return Json::Object{{"jobs", time.jobs},          {"wall", time.wall},
                      {"target", time.target},      {"oracle", time.oracle},
                      {"arbiter", time.arbiter},    {"shrinking", time.shrinking},
                      {"expansion", time.expansion}};
}

std::string Describe(const TimeSplit& time) {
  const auto percent = [&](double part) { return 100 * part / std::max(time.Total(), 1e-9); };
  return Text(
      "%d jobs for %.1f s: target %.0f %%, oracle %.0f %%, arbiter %.0f %%, shrinking %.0f %%, "
      "the harness itself %.0f %% (%.0f %% making problems of recipes)",
      time.jobs, time.wall, percent(time.target), percent(time.oracle), percent(time.arbiter),
      percent(time.shrinking), percent(time.Harness()), percent(time.expansion));
}

}  // namespace plumbline::fuzz

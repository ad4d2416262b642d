// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/time_split.h"

#include <algorithm>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {

Json ToJson(const TimeSplit& time) {
  return Json::Object{{"jobs", time.jobs},           {"wall", time.wall},
                      {"target", time.target},       {"oracle", time.oracle},
                      {"arbiter", time.arbiter},     {"shrinking", time.shrinking},
                      {"expansion", time.expansion}, {"waiting", time.waiting}};
}

std::string Describe(const TimeSplit& time) {
  const auto percent = [&](double part) { return 100 * part / std::max(time.Total(), 1e-9); };
  return Text(
      "%d jobs for %.1f s: running the target %.0f %%, computing what is right %.0f %%, confirming it "
      "at "
      "1280 bits %.0f %%, shrinking %.0f %%, making inputs %.0f %%, waiting for other jobs %.0f %%, "
      "processes %.0f %%",
      time.jobs, time.wall, percent(time.target), percent(time.oracle), percent(time.arbiter),
      percent(time.shrinking), percent(time.expansion), percent(time.waiting),
      percent(time.Harness() - time.expansion - time.waiting));
}

}  // namespace plumbline::fuzz

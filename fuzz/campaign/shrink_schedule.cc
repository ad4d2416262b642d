// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/shrink_schedule.h"

#include <algorithm>

#include "fuzz/base/harness_defect.h"

namespace plumbline::fuzz {
namespace {

constexpr int64_t kShare = 3, kCompilingShare = 6;

}  // namespace

ShrinkSchedule::ShrinkSchedule(std::optional<milliseconds> budget, milliseconds before, int jobs,
                               milliseconds most, bool compiles)
    : budget_(budget),
      before_(before),
      jobs_(jobs),
      most_(most),
      share_(compiles ? kCompilingShare : kShare) {}

std::optional<ShrinkSchedule::milliseconds> ShrinkSchedule::Begin(milliseconds elapsed, int64_t waiting,
                                                                  bool hunting) {
  const bool always = Planted(HarnessDefect::kShrinkingFirst);
  if (hunting && running_ >= std::max<int64_t>(1, jobs_ / kShare) && !always) return std::nullopt;
  milliseconds time = most_;
  if (budget_ && !always) {
    const milliseconds used = spent_ + granted_;
    const milliseconds left = (*budget_ - before_) * jobs_ / share_ - used;
    if (hunting && (used > (elapsed - before_) * jobs_ / share_ || left < kLeast)) return std::nullopt;
    // Half of what is left: the next one is to have some as well.
    const milliseconds share = left / (hunting ? 2 : std::max<int64_t>(waiting, 1));
    time = std::min(most_, std::max(kLeast, share));
  }
  ++running_;
  granted_ += time;
  return time;
}

void ShrinkSchedule::End(milliseconds granted, milliseconds took) {
  --running_;
  granted_ -= granted;
  spent_ += took;
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/exit_status.h"

#include <gtest/gtest.h>

#include <array>

namespace plumbline::fuzz {
namespace {

// Fails if what was found is hidden by a fault of the command line or a target that does not load
// beside it, if a fault of the harness is hidden by anything, or a run without a verdict is called
// clean.
TEST(ExitStatus, OfSeveralTheGravestCounts) {
  constexpr std::array kFromWorst = {
      ExitStatus::kFault,       ExitStatus::kInterrupted, ExitStatus::kFindings, ExitStatus::kSuspect,
      ExitStatus::kUnavailable, ExitStatus::kUsage,       ExitStatus::kThin,     ExitStatus::kClean};
  for (size_t i = 0; i < kFromWorst.size(); ++i) {
    for (size_t j = i; j < kFromWorst.size(); ++j) {
      EXPECT_EQ(Gravest({kFromWorst[i], kFromWorst[j]}), kFromWorst[i]);
      EXPECT_EQ(Gravest({kFromWorst[j], kFromWorst[i]}), kFromWorst[i]);
    }
  }
  EXPECT_EQ(Gravest({}), ExitStatus::kClean);
}

// Fails if a run of which half was judged is thin, or one of which less, or nothing, was is clean.
TEST(ExitStatus, FewerThanHalfIsThin) {
  EXPECT_EQ(ThinOf(5, 10), ExitStatus::kClean);
  EXPECT_EQ(ThinOf(5, 9), ExitStatus::kClean);
  EXPECT_EQ(ThinOf(1, 1), ExitStatus::kClean);
  EXPECT_EQ(ThinOf(4, 9), ExitStatus::kThin);
  EXPECT_EQ(ThinOf(0, 1), ExitStatus::kThin);
  EXPECT_EQ(ThinOf(0, 0), ExitStatus::kThin);
}

// Fails if a status has a process's status of its own that no page names, or another word.
TEST(ExitStatus, ThinEndsAsSuspectDoes) {
  EXPECT_EQ(ProcessStatus(ExitStatus::kThin), 6);
  EXPECT_EQ(ProcessStatus(ExitStatus::kSuspect), 6);
  EXPECT_EQ(ProcessStatus(ExitStatus::kFindings), 1);
  EXPECT_EQ(Name(ExitStatus::kThin), "thin");
}

}  // namespace
}  // namespace plumbline::fuzz

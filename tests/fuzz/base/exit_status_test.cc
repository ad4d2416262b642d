// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/exit_status.h"

#include <gtest/gtest.h>

#include <array>

namespace plumbline::fuzz {
namespace {

// Fails if a fault is hidden by a later status, or a graver status by a lesser one.
TEST(ExitStatus, OfSeveralTheGravestCounts) {
  constexpr std::array kFromWorst = {ExitStatus::kFault,       ExitStatus::kUnavailable,
                                     ExitStatus::kInterrupted, ExitStatus::kUsage,
                                     ExitStatus::kFindings,    ExitStatus::kClean};
  for (size_t i = 0; i < kFromWorst.size(); ++i) {
    for (size_t j = i; j < kFromWorst.size(); ++j) {
      EXPECT_EQ(Gravest({kFromWorst[i], kFromWorst[j]}), kFromWorst[i]);
      EXPECT_EQ(Gravest({kFromWorst[j], kFromWorst[i]}), kFromWorst[i]);
    }
  }
  EXPECT_EQ(Gravest({}), ExitStatus::kClean);
}

}  // namespace
}  // namespace plumbline::fuzz

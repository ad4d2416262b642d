// SPDX-License-Identifier: Apache-2.0
//
// All instruction sets that are both compiled in and present on this CPU, and a fixture that lets
// Highway choose for itself again afterwards.

#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <vector>

#include "kernel/host/simd.h"

namespace plumbline::kernel::host {

inline std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  for (int64_t left = CompiledTargets() & hwy::SupportedTargets(); left != 0; left &= left - 1) {
    targets.push_back(left & -left);
  }
  return targets;
}

class OnEveryTarget : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

}  // namespace plumbline::kernel::host

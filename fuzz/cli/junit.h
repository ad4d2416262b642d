// SPDX-License-Identifier: Apache-2.0
//
// Writes results as JUnit XML, which every CI system shows. The dialect is the common part of Jenkins',
// GitLab's and GitHub's reporters: testsuite, testcase, failure, error, skipped.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

struct JUnitCase {
  enum class Outcome : uint8_t { kPassed, kFailed, kError, kSkipped };
  std::string group, name;
  Outcome outcome = Outcome::kPassed;
  std::string message{};  // set for every status but kPassed
  double seconds = 0;
};

// The strings may hold any bytes: bytes that are not UTF-8, and characters that XML cannot hold, become
// U+FFFD.
std::string JUnitXml(std::string_view suite, const std::vector<JUnitCase>& cases);

}  // namespace plumbline::fuzz

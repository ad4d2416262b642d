// SPDX-License-Identifier: Apache-2.0
//
// Results as JUnit XML, which every CI system shows. The dialect is what Jenkins, GitLab and GitHub's
// reporters have in common: testsuite, testcase, failure, error, skipped.

#ifndef PLUMBLINE_FUZZ_CLI_JUNIT_H_
#define PLUMBLINE_FUZZ_CLI_JUNIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

struct JUnitCase {
  enum class Outcome : uint8_t { kPassed, kFailed, kError, kSkipped };
  std::string group, name;
  Outcome outcome = Outcome::kPassed;
  std::string message;  // set for every status but kPassed
  double seconds = 0;
};

// Any bytes may be in the strings: what is not UTF-8, or a character that XML cannot hold, becomes
// U+FFFD.
std::string JUnitXml(std::string_view suite, const std::vector<JUnitCase>& cases);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CLI_JUNIT_H_

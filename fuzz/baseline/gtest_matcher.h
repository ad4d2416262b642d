// SPDX-License-Identifier: Apache-2.0
//
// The second tier as a GoogleTest assertion, beside those of oracle/judge/gtest_matcher.h:
//
//   EXPECT_LIKE_HONEST_KERNELS(problem, results, contract);
//
// A bound holds for every order of summation; this asks whether the errors are those that honest
// kernels of the same contract make on these inputs (BASELINES.md). It is for values like a trained
// model's, and for problems of at least eight rows: fewer are not judged, which is a failure, too. A
// project that uses it needs GoogleTest and links plumbline::fuzz.
//
// A failure says for each suspect output how many times the largest honest kernel it errs, in the root
// mean square, the median and the largest of its rows, and the shortcut that explains it. What breaks a
// bound is a failure of WithinBound's words.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "fuzz/baseline/honest_errors.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/judge/gtest_matcher.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

inline ::testing::AssertionResult LikeHonestKernels(const char* problem_text, const char* results_text,
                                                    const char* contract_text,
                                                    const kernel::Problem& problem,
                                                    const kernel::Results& results,
                                                    const oracle::Contract& contract) {
  const ::testing::AssertionResult bound =
      oracle::WithinBound(problem_text, results_text, contract_text, problem, results, contract);
  if (!bound) return bound;
  HonestErrorTier tier(problem, results, contract, {});
  oracle::JudgeProblem(problem, results, contract, {}, nullptr, &tier);
  const HonestErrors errors = tier.Compare();
  const std::string subject = std::string(results_text) + " of " + problem_text;
  int64_t judged = 0;
  std::ostringstream text;
  for (const OutputErrors& o : errors.outputs) {
    judged += !o.units.TooFew();
    if (!o.units.Suspect()) continue;
    text << "\n  " << oracle::Name(o.output) << (o.part.empty() ? "" : ", ") << o.part
         << ": root mean square " << o.units.found << ", " << o.units.rms << " times that of "
         << o.baseline << "; median " << o.units.median << " times, largest " << o.units.largest
         << " times";
  }
  if (errors.AnySuspect()) {
    const std::string shortcuts = errors.explanation.Words();
    return ::testing::AssertionFailure()
           << subject << " errs more than " << HonestUnits::kSuspect << " times any honest kernel of "
           << contract_text << " on these inputs" << text.str()
           << (shortcuts.empty() ? "" : "\n  explained by: " + shortcuts);
  }
  if (judged > 0) return ::testing::AssertionSuccess();
  ::testing::AssertionResult nothing = ::testing::AssertionFailure();
  nothing << "nothing of " << subject << " was compared with honest kernels: ";
  for (const OutputErrors& o : errors.outputs) {
    nothing << oracle::Name(o.output) << " has " << o.units.units << " rows of at least "
            << HonestUnits::kLeastUnits << "; ";
  }
  for (const std::string& line : errors.left_out) nothing << line << "; ";
  return nothing;
}

}  // namespace plumbline::fuzz

#define EXPECT_LIKE_HONEST_KERNELS(problem, results, contract) \
  EXPECT_PRED_FORMAT3(::plumbline::fuzz::LikeHonestKernels, problem, results, contract)
#define ASSERT_LIKE_HONEST_KERNELS(problem, results, contract) \
  ASSERT_PRED_FORMAT3(::plumbline::fuzz::LikeHonestKernels, problem, results, contract)

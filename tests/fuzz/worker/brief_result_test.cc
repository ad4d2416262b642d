// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/brief_result.h"

#include <gtest/gtest.h>

#include <limits>

namespace plumbline::fuzz {
namespace {

CaseResult Passed() {
  CaseResult r;
  r.arbitrated = 7;
  r.expand_seconds = 0.1;
  r.target_seconds = 1.0 / 3;
  r.oracle_seconds = 1e-9;
  r.outputs = {{"logprob", 3, 0, 1, 2, 0x1.fffffffffffffp-2},
               {"grad_weight", int64_t{1} << 40, 0, 0, 0, std::numeric_limits<double>::infinity()}};
  return r;
}

// Fails if a field is left out or swapped with its neighbour, or digits are dropped.
TEST(Brief, ComesBack) {
  CaseResult r = Passed();
  for (const auto verdict : {oracle::Verdict::kPass, oracle::Verdict::kVacuous}) {
    r.verdict = verdict;
    const auto line = Brief(r);
    ASSERT_TRUE(line);
    const auto back = CaseResultFromBrief(*line);
    ASSERT_TRUE(back) << *line;
    EXPECT_EQ(ToJson(*back).Dump(), ToJson(r).Dump());
    EXPECT_EQ(back->outputs[0].tightness, r.outputs[0].tightness);
    EXPECT_EQ(back->outputs[1].tightness, r.outputs[1].tightness);
    EXPECT_EQ(back->target_seconds, r.target_seconds);
  }
}

// Fails if the short form is used for a result with a finding, a skip reason, a fault or a failure.
TEST(Brief, IsNotForWhatHasSomethingToTell) {
  CaseResult failed = Passed(), skipped = Passed(), faulty = Passed(), refused = Passed();
  failed.findings.emplace_back();
  skipped.skip_reason = "no";
  faulty.harness_fault = "contradiction";
  refused.verdict = oracle::Verdict::kFail;
  for (const CaseResult& r : {failed, skipped, faulty, refused}) EXPECT_FALSE(Brief(r));
}

// A target may write anything into the socket. Fails if bytes that are no short result are read as one.
TEST(Brief, RefusesWhatItDidNotWrite) {
  const std::string line = *Brief(Passed());
  for (size_t length = 0; length < line.size(); ++length) {
    const std::string_view torn = std::string_view(line).substr(0, length);
    // A line cut inside its last number holds another number; a line cut between outputs is a shorter
    // result.
    if (const auto back = CaseResultFromBrief(torn)) {
      EXPECT_TRUE(Brief(*back)) << torn;
    }
  }
  for (const char* bad : {"", "pass", "fail 0 0 0 0", "pass 0 0 0", "pass x 0 0 0", "pass 0 0 0 0x",
                          "pass 0 0 0 0  ", "pass 0 0 0 0 lse", "pass 0 0 0 0 lse 1 2 3 4",
                          "pass 0 0 0 0 nonsense 1 2 3 4 5", "pass 99999999999999999999 0 0 0", "{}"}) {
    EXPECT_FALSE(CaseResultFromBrief(bad)) << bad;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/explain.h"
#include "fuzz/problem/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/select.h"
#include "kernel/problem.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr milliseconds kAmple{600'000};

OwnedProblem Plain(int64_t v) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(DType::kBf16, {1, 1});
  p.hidden.SetFloat(0, 1);
  p.weight = HostTensor::Zeros(DType::kBf16, {v, 1});
  p.labels = HostTensor::Zeros(DType::kI64, {1});
  p.wanted = {false, false, false, false, false};
  return p;
}

// Common defects, as predicates. Fails if an axis is changed together with another, so that a need is
// missed or an unneeded one is stated.
TEST(Explain, SaysWhatATailNeeds) {
  const std::vector<std::string> lines =
      Explain(
          Plain(3), [](const OwnedProblem& p) { return p.vocab() % 64 != 0; }, kAmple)
          .lines;
  EXPECT_THAT(lines, Contains(StartsWith("V: fails unless V mod 64 is 0 (")));
  EXPECT_THAT(lines, Contains(StartsWith("N: any (")));
  EXPECT_THAT(lines, Contains(StartsWith("H: any (")));
  EXPECT_THAT(lines, Contains("label: any (3 tried, 0 to 2)"));
  EXPECT_THAT(lines, Contains("hidden: any finite values (20 of 20 at random)"));
  EXPECT_THAT(lines, Contains("offset of all logits: any from -65536 to 65536"));
  EXPECT_THAT(lines, Contains("also with: fp16, fp32, weight hidden-major, padded rows, int32 labels, "
                              "temperature 2, every output"));
}

// Fails if the range of an offset or a scale, or the options that hide the finding, are stated wrongly.
TEST(Explain, SaysWhatAnUnderflowNeeds) {
  OwnedProblem p = Plain(2);
  for (const int64_t v : {0, 1}) p.weight.SetFloat(v, -128);
  const auto fails = [](const OwnedProblem& q) {
    if (q.hidden.dtype == DType::kF32 || q.layout.hidden_padding > 0) return false;
    const std::vector<double> logits = Logits(q, 0);
    return *std::max_element(logits.begin(), logits.end()) < -88;
  };
  const std::vector<std::string> lines = Explain(p, fails, kAmple).lines;
  EXPECT_THAT(lines, Contains("offset of all logits: fails from -65536 to 32 (largest logit -65664 to "
                              "-96), passes at 64"));
  EXPECT_THAT(lines, Contains(StartsWith("scale of hidden: 2^0 to 2^10")));
  EXPECT_THAT(lines, Contains("weight: 0 of 20 at random, 20 of 20 of the same sign and size"));
  EXPECT_THAT(lines, Contains(HasSubstr("not with: fp32, padded rows")));
  EXPECT_THAT(lines, Contains(StartsWith("V: any (")));  // copies of the existing entries keep it
}

// Fails if a needed label or number of rows is not stated.
TEST(Explain, SaysWhichLabelAndRows) {
  OwnedProblem p = Plain(3);
  p.labels.SetInt(0, 2);
  const auto fails = [](const OwnedProblem& q) {
    return q.labels.GetInt(0) == q.vocab() - 1 && q.rows() == 1;
  };
  const std::vector<std::string> lines = Explain(p, fails, kAmple).lines;
  EXPECT_THAT(lines, Contains(StartsWith("label: 2 alone")));
  EXPECT_THAT(lines, Contains(StartsWith("N: 1 alone")));
  EXPECT_THAT(lines, Contains(StartsWith("V: ")));
}

// Fails if what fails in another way is not told from what fails in this one, or not looked at.
TEST(Explain, SaysWhatFailsInAnotherWay) {
  bool otherwise = false;
  const auto fails = [&](const OwnedProblem& p) {
    otherwise = p.vocab() % 8 == 1 && p.vocab() > 1;
    return p.vocab() == 1;
  };
  const ExplainOptions options{.time = kAmple, .tries = {}, .otherwise = [&] { return otherwise; }};
  const Explanation explained = Explain(Plain(1), fails, options);
  EXPECT_THAT(explained.lines,
              Contains(::testing::MatchesRegex(
                  "V: 1 alone .*; in one way or another fails where V mod 8 is 1 .*")));
  EXPECT_THAT(explained.rules, Contains("V=1"));
  EXPECT_THAT(explained.any_rules, Contains("V=1%8"));
}

// Fails if the number of tries does not limit them, or if a clock does as well.
TEST(Explain, TriesReplaceTime) {
  int64_t asked = 0;
  const auto fails = [&](const OwnedProblem&) { return ++asked > 0; };
  const ExplainOptions options{.time = milliseconds(0), .tries = 40, .otherwise = {}};
  EXPECT_THAT(
      Explain(Plain(3), fails, options).lines,
      AllOf(Contains(StartsWith("V: any (")), Contains("the rest was not tried: out of tries")));
  EXPECT_EQ(asked, 40);
}

// Fails if a line is made of tries that the time limit cut short, or if the missing tries are not
// mentioned.
TEST(Explain, SaysWhatTimeDidNotSufficeFor) {
  EXPECT_THAT(Explain(
                  Plain(3), [](const OwnedProblem&) { return true; }, milliseconds(0))
                  .lines,
              ElementsAre("the rest was not tried: out of time"));
}

// Fails if addresses, the clock or an earlier call affect which changes are tried.
TEST(Explain, Deterministic) {
  std::vector<std::string> first, second;
  const auto run = [](std::vector<std::string>* offered) {
    return Explain(
               Plain(5),
               [offered](const OwnedProblem& p) {
                 offered->push_back(Everything(p));
                 return p.hidden.GetFloat(0) > 0.5f;
               },
               kAmple)
        .lines;
  };
  EXPECT_EQ(run(&first), run(&second));
  EXPECT_EQ(first, second);
  EXPECT_THAT(first, Not(::testing::IsEmpty()));
}

// Fails, or crashes, if an axis is assumed to be non-empty.
TEST(Explain, EmptyAxes) {
  OwnedProblem no_rows = Plain(2);
  no_rows.hidden = HostTensor::Zeros(DType::kBf16, {0, 1});
  no_rows.labels = HostTensor::Zeros(DType::kI64, {0});
  OwnedProblem no_entries = Plain(0), no_columns = Plain(2);
  no_columns.hidden = HostTensor::Zeros(DType::kBf16, {1, 0});
  no_columns.weight = HostTensor::Zeros(DType::kBf16, {2, 0});
  for (const OwnedProblem& p : {no_rows, no_entries, no_columns}) {
    EXPECT_THAT(Explain(
                    p, [](const OwnedProblem&) { return true; }, kAmple)
                    .lines,
                Contains(StartsWith("also with: ")));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

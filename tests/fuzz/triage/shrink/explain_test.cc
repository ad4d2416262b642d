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
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

std::vector<std::pair<int64_t, bool>> TriedBy(const std::vector<int64_t>& extents, auto fails) {
  std::vector<std::pair<int64_t, bool>> tried;
  for (const int64_t x : extents) tried.emplace_back(x, fails(x));
  return tried;
}

// Fails if a rule is stated that some of the tries break, or a vaguer one than would hold.
TEST(ExtentRule, SimplestThatHoldsForAll) {
  const std::vector<int64_t> some = {1, 2, 3, 16, 17, 32, 33, 63, 64, 65, 128, 192};
  const auto rule = [&](auto fails) { return ExtentRule("V", TriedBy(some, fails)).line; };
  EXPECT_EQ(rule([](int64_t) { return true; }), "V: any (12 tried, 1 to 192)");
  EXPECT_THAT(rule([](int64_t x) { return x == 17; }), StartsWith("V: 17 alone"));
  EXPECT_THAT(rule([](int64_t x) { return x >= 65; }), StartsWith("V: fails from 65 on ("));
  EXPECT_THAT(rule([](int64_t x) { return x <= 17; }), StartsWith("V: fails up to 17 ("));
  EXPECT_THAT(rule([](int64_t x) { return x % 64 != 0; }), StartsWith("V: fails unless V mod 64 is 0"));
  EXPECT_THAT(rule([](int64_t x) { return x > 3 && x % 64 != 0; }),
              StartsWith("V: fails from 16 on, unless V mod 64 is 0"));
  EXPECT_THAT(rule([](int64_t x) { return x % 64 == 1; }), StartsWith("V: fails where V mod 64 is 1"));
  EXPECT_EQ(rule([](int64_t x) { return x == 2 || x == 63; }),
            "V: fails for 2, 63; passes for 1, 3, 16, 17, 32, 33, 64, 65, ...");
}

// Common defects, as predicates. Fails if an axis is changed together with another, so that a need is
// missed or an unneeded one is stated.
TEST(Explain, SaysWhatATailNeeds) {
  const std::vector<std::string> lines =
      Explain(
          Plain(3), [](const OwnedProblem& p) { return p.vocab() % 64 != 0; }, kAmple)
          .lines;
  EXPECT_THAT(lines, Contains("V: fails unless V mod 64 is 0 (25 tried, 1 to 320)"));
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
  EXPECT_THAT(first, Not(testing::IsEmpty()));
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

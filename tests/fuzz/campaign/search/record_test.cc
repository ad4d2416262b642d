// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace plumbline::fuzz {
namespace {

CaseRecord There(const CaseRecord& record) {
  std::string error;
  const auto json = Json::Parse(ToJson(record).Dump(), &error);
  EXPECT_TRUE(json) << error;
  const auto back = FromJson<CaseRecord>(*json, "record", &error);
  EXPECT_TRUE(back) << error;
  return back.value_or(CaseRecord{});
}

// Fails if an output is read back as another, if the short form loses a count, or if a NaN or an
// infinity, which JSON cannot express, is lost.
TEST(CaseRecordTest, ComesBackFromItsLine) {
  CaseRecord record;
  record.verdict = oracle::Verdict::kFail;
  record.signatures = {"bound:logprob", "sign:entropy"};
  record.retried = record.fault = true;
  record.arbitrated = 13;
  record.by_output = {{"logprob", {5, 0, 0, 0}},     {"loss", {0, 1, 0, 0}},
                      {"entropy", {0, 0, 0, 4}},     {"lse", {7, 0, 3, 0}},
                      {"grad_hidden", {0, 0, 0, 0}}, {"grad_weight", {1, 2, 3, 4}}};
  record.tightness = {
      {"logprob", 0.25}, {"loss", std::numeric_limits<double>::infinity()}, {"grad_weight", 0x1.8p-7}};
  EXPECT_EQ(There(record), record);
  EXPECT_EQ(record.Elements(), (ElementCounts{13, 3, 6, 8}));
  CaseRecord skipped;
  skipped.verdict = oracle::Verdict::kSkipped;
  skipped.skip_reason = "no \"fp16\"\n";
  EXPECT_EQ(There(skipped), skipped);
  EXPECT_EQ(There(CaseRecord{}), CaseRecord{});
  record = {};
  record.by_output["lse"] = {1, 0, 0, 0};
  record.tightness["lse"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(There(record).tightness.at("lse")));
}

// Fails if JSON of a wrong type, an unknown output or a count of the wrong length is read as a record.
TEST(CaseRecordTest, WhatIsNoRecordIsRefused) {
  for (const char* text :
       {"[]", "7", R"({"v":"maybe"})", R"({"v":1})", R"({"f":"bound"})", R"({"f":[1]})",
        R"({"o":{"logprob":[1]}})", R"({"o":{"x":[1]}})", R"({"o":{"p":[]}})", R"({"o":{"p":[1,2,3]}})",
        R"({"o":{"p":[1,2,3,4,5,6]}})", R"({"o":{"p":["1"]}})", R"({"o":{"p":[1,"x"]}})",
        R"({"o":[1]})", R"({"a":"x"})", R"({"skip":1})"}) {
    std::string error;
    const auto json = Json::Parse(text, &error);
    ASSERT_TRUE(json) << text;
    EXPECT_FALSE(FromJson<CaseRecord>(*json, "record", &error)) << text;
  }
}

// Fails if rounding makes a failing element look as if it passed, or the reverse.
TEST(CaseRecordTest, RoundingKeepsFiveDigitsAndTheSideOfTheBound) {
  EXPECT_EQ(RoundTightness(0.123456789), 0.12346);
  EXPECT_EQ(RoundTightness(1.23456789e-7), 1.2346e-7);
  EXPECT_EQ(RoundTightness(0), 0);
  EXPECT_EQ(RoundTightness(1.0000001), 1.0000001);
  EXPECT_EQ(RoundTightness(0.9999999), 1);
  EXPECT_LE(RoundTightness(0.9999999), 1);
}

// An output of which nothing was judged has no tightness. The largest of two summaries is kept. Fails
// if a summary of an output is lost or counted twice, if a signature comes twice, or if the lesser part
// of an output's errors in honest units is kept, or one without a number.
TEST(CaseRecordTest, IsMadeFromWhatWasJudged) {
  CaseResult result;
  result.outputs = {{.output = "lse", .pass = 3, .vacuous = 1, .tightness = 0.5},
                    {.output = "lse", .pass = 1, .tightness = 0.25},
                    {.output = "entropy", .vacuous = 2, .unspecified = 2, .tightness = 0.75}};
  result.honest.resize(3);
  result.honest[0].output = result.honest[1].output = "grad_weight";
  result.honest[0].ratio = 2.1234567;
  result.honest[1].ratio = 0.5;
  result.honest[2].output = "lse";
  result.honest[2].dropped = 4;
  result.findings.resize(3);
  result.findings[0].output = result.findings[2].output = "lse";
  result.findings[1].output = "loss";
  result.verdict = oracle::Verdict::kFail;
  const CaseRecord record = RecordOf(result, true, {});
  EXPECT_EQ(record.tightness, (std::map<std::string, double>{{"lse", 0.5}}));
  EXPECT_EQ(record.by_output.at("lse"), (ElementCounts{4, 0, 1, 0}));
  EXPECT_EQ(record.signatures, (std::vector<std::string>{"bound:lse", "bound:loss"}));
  EXPECT_EQ(record.honest, (std::map<std::string, double>{{"grad_weight", 2.1235}}));
  EXPECT_TRUE(record.retried);
  EXPECT_TRUE(record.Judged());
}

}  // namespace
}  // namespace plumbline::fuzz

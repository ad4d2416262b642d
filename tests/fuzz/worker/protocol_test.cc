// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/protocol.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace plumbline::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

CaseResult Passed() {
  CaseResult r;
  r.arbitrated = 7;
  r.fits = {{"black-box", 0.25}, {"fp32", std::numeric_limits<double>::infinity()}};
  r.expand_seconds = 0.1;
  r.target_seconds = 1.0 / 3;
  r.oracle_seconds = 1e-9;
  r.outputs = {{"logprob", 3, 0, 1, 2, 5, 0x1.fffffffffffffp-2},
               {"grad_weight", int64_t{1} << 40, 0, 0, 0, 0, std::numeric_limits<double>::infinity()}};
  return r;
}

CaseResult Failed() {
  CaseResult r = Passed();
  r.verdict = oracle::Verdict::kFail;
  r.skip_reason = "no \"fp16\"\n";
  r.harness_fault = "contradiction";
  r.findings.resize(2);
  Finding& f = r.findings.front();
  f.kind = FindingKind::kHang;
  f.suspect = true;
  f.readings = {{"sums are rounded", "\"tile\": 1"}};
  f.output = "lse";
  f.row = 3;
  f.got = -0.0;
  f.bound = 2;
  f.arbiter = "1.5";
  f.what = "w";
  return r;
}

// Fails if a field is left out or swapped with its neighbour, or loses digits.
TEST(Protocol, ResultsComeBack) {
  for (const CaseResult& r : {Passed(), Failed(), CaseResult{}}) {
    std::string error;
    const auto back = Decode<CaseResult>(ToBytes(r), &error);
    ASSERT_TRUE(back) << error;
    EXPECT_EQ(ToJson(*back).Dump(), ToJson(r).Dump());
    for (size_t i = 0; i < r.outputs.size(); ++i) {
      EXPECT_EQ(back->outputs[i].tightness, r.outputs[i].tightness);
    }
    EXPECT_EQ(back->target_seconds, r.target_seconds);
  }
}

// Fails if a target's words that are no UTF-8 come to the supervisor otherwise than they stand in a
// journal.
TEST(Protocol, WordsAreUtf8) {
  CaseResult r;
  r.skip_reason = "bad \xff\xfe text, and \xc3\xa9";
  std::string error;
  const auto back = Decode<CaseResult>(ToBytes(r), &error);
  ASSERT_TRUE(back) << error;
  EXPECT_EQ(back->skip_reason, "bad \xef\xbf\xbd\xef\xbf\xbd text, and \xc3\xa9");
}

// Fails if a field of the two other messages is left out or swapped, or a seed loses its sign bit.
TEST(Protocol, HelloAndRequestComeBack) {
  std::string error;
  const Hello hello{.error = "e", .name = "n", .version = "v", .device = "d", .description = "{}"};
  const auto greeted = Decode<Hello>(ToBytes(hello), &error);
  ASSERT_TRUE(greeted) << error;
  EXPECT_EQ(ToBytes(*greeted), ToBytes(hello));
  EXPECT_EQ(greeted->error + greeted->name + greeted->version + greeted->device, "envd");
  const Request request{.recipe = "v1 n=2",
                        .case_file = Bytes(5, std::byte{7}),
                        .seed = ~uint64_t{1},
                        .arbiter = true,
                        .arbiter_on_pass = false};
  const auto asked = DecodeRequest(Encode(request), &error);
  ASSERT_TRUE(asked) << error;
  EXPECT_EQ(asked->recipe, "v1 n=2");
  EXPECT_EQ(asked->case_file, request.case_file);
  EXPECT_EQ(asked->seed, request.seed);
  EXPECT_TRUE(asked->arbiter);
  EXPECT_FALSE(asked->arbiter_on_pass);
}

// A target may write anything into the socket. Fails if a torn result is read as one, or if bytes are
// read that are not there.
TEST(Protocol, ATornResultIsRefused) {
  const Bytes whole = ToBytes(Failed());
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string error;
    EXPECT_FALSE(Decode<CaseResult>(std::span(whole).first(size), &error)) << size;
    EXPECT_FALSE(error.empty());
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  std::string error;
  EXPECT_FALSE(Decode<CaseResult>(longer, &error));
}

// Fails if changed bytes are read beyond their end, cost memory that they do not have, or are accepted
// as a result that does not come back.
TEST(Protocol, ChangedBytesAreRefusedOrAResult) {
  std::mt19937_64 random(20261122);  // its stream is fixed by the standard
  const Bytes whole = ToBytes(Failed());
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = whole;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    std::string error;
    const auto read = Decode<CaseResult>(bytes, &error);
    refused += !read;
    if (!read) continue;
    const auto again = Decode<CaseResult>(ToBytes(*read), &error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(ToBytes(*again), ToBytes(*read));
  }
  EXPECT_GT(refused, 1'000);
  EXPECT_LT(refused, 19'000);
}

}  // namespace
}  // namespace plumbline::fuzz

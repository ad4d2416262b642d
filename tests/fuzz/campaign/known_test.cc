// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/known.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Known : public ::testing::Test {
 protected:
  std::optional<std::vector<KnownFinding>> Read(const std::string& text) {
    std::ofstream(work_ / "known.json") << text;
    return ReadKnown(work_ / "known.json", &error_);
  }
  // An entry that is right, with one key replaced, or removed if `value` is empty.
  static std::string With(const std::string& key, const std::string& value) {
    std::vector<std::pair<std::string, std::string>> fields = {{"signature", "\"bound:lse\""},
                                                               {"reason", "\"r\""},
                                                               {"link", "\"https://e.org/1\""},
                                                               {"date", "\"2025-02-28\""}};
    bool there = false;
    for (auto& [name, text] : fields) {
      if (name != key) continue;
      text = value;
      there = true;
    }
    if (!there) fields.emplace_back(key, value);
    std::string entry;
    for (const auto& [name, text] : fields) {
      if (!text.empty()) entry += (entry.empty() ? "{\"" : ", \"") + name + "\": " + text;
    }
    return "{\"known\": [" + entry + "}]}";
  }

  testing::Workplace work_;
  std::string error_;
};

// Fails if an entry accepts the finding of another target, another signature that begins alike, a
// suspect or once seen finding beside the plain one, or another bucket.
TEST_F(Known, AnEntryAcceptsWhatItNamesAndNothingElse) {
  KnownFinding signature, bucket, anywhere;
  signature.target = bucket.target = "plugin:a.so";
  signature.signature = "bound:lse";
  bucket.bucket = "0123abcd";
  anywhere.signature = "crash";
  const std::vector<KnownFinding> known = {signature, bucket, anywhere};
  EXPECT_EQ(Accepting(known, "plugin:a.so", "bound:lse", "ffffffff"), 0U);
  EXPECT_EQ(Accepting(known, "plugin:a.so", "sign:logprob", "0123abcd"), 1U);
  EXPECT_EQ(Accepting(known, "plugin:b.so", "crash", ""), 2U);
  for (const char* other :
       {"bound:ls", "bound:lse2", "suspect-bound:lse", "bound:lse (once)", "bound:logprob", ""}) {
    EXPECT_EQ(Accepting(known, "plugin:a.so", other, ""), std::nullopt) << other;
  }
  EXPECT_EQ(Accepting(known, "plugin:b.so", "bound:lse", "0123abcd"), std::nullopt);
  EXPECT_EQ(Accepting(known, "plugin:a.so@fp32", "bound:lse", ""), std::nullopt);
}

// Fails if an entry that was written before failures were told apart no longer accepts each of them, or
// accepts more than it did; or if one that names a failure accepts another.
TEST_F(Known, PlainStatusAcceptsEveryFailure) {
  const auto accepts = [](const std::string& entry, const std::string& signature) {
    KnownFinding known;
    known.signature = entry;
    return Accepting({known}, "host", signature, "") == 0U;
  };
  for (const char* each : {"status", "status:failed", "status:invalid", "status:no-status",
                           "status:threw", "status:ValueError@loss.3fa2c1"}) {
    EXPECT_TRUE(accepts("status", each)) << each;
    EXPECT_TRUE(accepts("status (once)", std::string(each) + " (once)")) << each;
    EXPECT_FALSE(accepts("status", std::string(each) + " (once)")) << each;
    EXPECT_FALSE(accepts("status (once)", each)) << each;
  }
  for (const char* other : {"status:memory", "status:first_invalid_row", "crash", "bound:lse"}) {
    EXPECT_FALSE(accepts("status", other)) << other;
  }
  EXPECT_TRUE(accepts("status:KeyError@f", "status:KeyError@f"));
  EXPECT_FALSE(accepts("status:KeyError@f", "status:KeyError@g"));
  EXPECT_FALSE(accepts("status:KeyError@f", "status"));
  EXPECT_TRUE(Read(With("signature", "\"status:ValueError@loss.3fa2c1\""))) << error_;
  EXPECT_TRUE(accepts("unexplained-bound:lse", "unexplained-bound:lse"));
  EXPECT_FALSE(accepts("bound:lse", "unexplained-bound:lse"));
  EXPECT_TRUE(Read(With("signature", "\"suspect-unexplained-bound:lse\""))) << error_;
  for (const char* wrong :
       {"\"status:ValueError@a b\"", "\"status:Value/Error@a\"", "\"status:mermory\""}) {
    EXPECT_FALSE(Read(With("signature", wrong))) << wrong;
  }
}

// Fails if an entry without a reason, a link or a date is accepted, or one that names nothing or that
// no finding can match, or if the refusal does not name file, key and value.
TEST_F(Known, WhatIsMalformedIsRefusedByNameAndValue) {
  EXPECT_TRUE(Read(With("date", "\"2024-02-29\""))) << error_;
  EXPECT_TRUE(Read(With("target", "\"host\""))) << error_;
  EXPECT_TRUE(Read("{\"known\": []}")) << error_;
  const std::vector<std::pair<std::string, std::string>> wrong = {{"reason", ""},
                                                                  {"reason", "\"  \""},
                                                                  {"reason", "7"},
                                                                  {"link", ""},
                                                                  {"link", "\"issue 7\""},
                                                                  {"link", "\"https://\""},
                                                                  {"date", ""},
                                                                  {"date", "\"2025-02-29\""},
                                                                  {"date", "\"31.1.2025\""},
                                                                  {"date", "\"2025-1-31\""},
                                                                  {"signature", ""},
                                                                  {"signature", "\"bund:lse\""},
                                                                  {"bucket", "\"0123abcd\""},
                                                                  {"until", "\"2026\""},
                                                                  {"target", "3"}};
  for (const auto& [key, value] : wrong) {
    EXPECT_FALSE(Read(With(key, value))) << key << value;
    EXPECT_THAT(error_, AllOf(HasSubstr("known.json: file.known[0]." + key),
                              HasSubstr(value.empty() ? "missing" : value)));
  }
  EXPECT_FALSE(
      Read("{\"known\": [{\"bucket\": \"xyz\", \"reason\": \"r\", \"link\": "
           "\"https://e.org\", \"date\": \"2025-01-01\"}]}"));
  EXPECT_THAT(error_, HasSubstr("file.known[0].bucket is \"xyz\""));
  const std::string entry = With("date", "\"2025-01-01\"");
  const std::string one = entry.substr(11, entry.size() - 13);
  EXPECT_FALSE(Read("{\"known\": [" + one + ", " + one + "]}"));
  EXPECT_THAT(error_, HasSubstr("known[1] names bound:lse again"));
  EXPECT_FALSE(Read("[]"));
  EXPECT_FALSE(ReadKnown(work_ / "nowhere.json", &error_));
  EXPECT_THAT(error_, HasSubstr("nowhere.json"));
}

}  // namespace
}  // namespace plumbline::fuzz

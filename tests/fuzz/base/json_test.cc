// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;

Json Parsed(std::string_view text) {
  std::string error;
  const auto json = Json::Parse(text, &error);
  EXPECT_TRUE(json.has_value()) << text << ": " << error;
  return json.value_or(Json("did not parse"));
}

std::string Refusal(std::string_view text) {
  std::string error;
  EXPECT_FALSE(Json::Parse(text, &error).has_value()) << text;
  EXPECT_FALSE(error.empty());
  return error;
}

// Fails if a writer changes spelling, key order or spacing: stored cases are compared by their bytes.
TEST(Json, DumpIsCanonical) {
  Json object;
  object["b"] = Json(Json::Array{Json(1), Json(2.5), Json(true), Json()});
  object["a"] = Json("x\"\n\x01");
  object["c"] = Json(Json::Object());
  EXPECT_EQ(object.Dump(), R"({"a":"x\"\n\u0001","b":[1,2.5,true,null],"c":{}})");
  EXPECT_EQ(
      object.Dump(1),
      "{\n \"a\": \"x\\\"\\n\\u0001\",\n \"b\": [\n  1,\n  2.5,\n  true,\n  null\n ],\n \"c\": {}\n}");
}

// Fails if keys are sorted by anything but their bytes (a signed char puts "é" before "z").
TEST(Json, KeysAreSortedByBytes) {
  EXPECT_EQ(Parsed(R"({"é":1,"z":2,"A":3})").Dump(), R"({"A":3,"z":2,"é":1})");
}

// Fails if a double loses a bit or its sign of zero on the way through text, or comes back as an
// integer.
TEST(Json, DoublesSurviveByTheBit) {
  for (const double value : {0.0, -0.0, 1.0, 3e22, 0.1, 1.0 / 3, 5e-324, 2.2250738585072014e-308,
                             1.7976931348623157e308, 123456789012345680.0, 0x1.fffffep-127}) {
    const Json back = Parsed(Json(value).Dump());
    ASSERT_TRUE(back.as_number().has_value());
    EXPECT_EQ(back.as_int(), nullptr) << Json(value).Dump();
    const double got = *back.as_number();
    EXPECT_EQ(std::memcmp(&got, &value, sizeof value), 0) << Json(value).Dump();
  }
}

// Fails if a non-finite number makes text that is not JSON, or loses its kind.
TEST(Json, NonFiniteNumbersAreStrings) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json(std::nan("")).Dump(), "\"nan\"");
  EXPECT_EQ(Json(inf).Dump(), "\"inf\"");
  EXPECT_EQ(Json(-inf).Dump(), "\"-inf\"");
  EXPECT_TRUE(std::isnan(*Parsed("\"nan\"").as_number()));
  EXPECT_EQ(*Parsed("\"-inf\"").as_number(), -inf);
  EXPECT_FALSE(Parsed("\"infinity\"").as_number().has_value());
}

// Fails if int64 passes through a double anywhere.
TEST(Json, IntegersKeepAll64Bits) {
  for (const int64_t value : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
                              (int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max()}) {
    const Json back = Parsed(Json(value).Dump());
    ASSERT_NE(back.as_int(), nullptr);
    EXPECT_EQ(*back.as_int(), value);
  }
}

// Each fails if the refusal named is dropped; without it the library silently keeps the last duplicate,
// rounds the integer, or stops at the zero byte.
TEST(Json, RefusesWhatTheLibraryLetsPass) {
  EXPECT_THAT(Refusal(R"({"a":1,"a":1})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(Refusal("9223372036854775808"), HasSubstr("9223372036854775808"));
  EXPECT_THAT(Refusal("-9223372036854775809"), HasSubstr("-9223372036854775809"));
  EXPECT_THAT(Refusal("99999999999999999999999"), HasSubstr("64 signed bits"));
  EXPECT_THAT(Refusal(std::string_view("{}\0{}", 5)), HasSubstr("zero byte at offset 2"));
  EXPECT_THAT(Refusal("{} {}"), HasSubstr("column 4"));
  EXPECT_THAT(Refusal("1e999"), HasSubstr("1e999"));
}

// Fails if the depth limit is off by one, or counts only arrays or only objects.
TEST(Json, DepthLimit) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += i % 2 == 0 ? "[" : "{\"k\":";
    text += "1";
    for (int i = depth; i-- > 0;) text += i % 2 == 0 ? "]" : "}";
    return text;
  };
  EXPECT_EQ(Parsed(nested(64)).Dump(), nested(64));
  EXPECT_THAT(Refusal(nested(65)), HasSubstr("64"));
  EXPECT_THAT(Refusal(std::string(1 << 20, '[')), HasSubstr("64"));
}

// Fails if broken text is completed, or a crash is hidden behind an exception.
TEST(Json, RefusesBrokenText) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\"}", "{a:1}", "'a'", "nul", "NaN", "01", "+1", ".5", "1.",
        "\"\x01\"", "\"\\x\"", "\"\xff\"", "\"\\ud800\"", "// c\n1", "[1 2]"}) {
    Refusal(text);
  }
}

// Fails if the end of the text closes what is open: every prefix of a valid object must be refused.
TEST(Json, RefusesEveryPrefix) {
  const std::string text = R"({"a":[1,-2.5e3,{"b":"é\n"}],"c":null})";
  Parsed(text);
  for (size_t length = 0; length < text.size(); ++length) Refusal(text.substr(0, length));
}

// Fails if text of a target that is not UTF-8 throws, or makes JSON that cannot be read again.
TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(Json(std::string("a\xff"
                             "b"))
                .Dump(),
            "\"a\xEF\xBF\xBD"
            "b\"");
}

TEST(Json, FindAndAppend) {
  Json json;
  json["a"]["b"] = Json(7);
  json["list"].Append(Json(1));
  json["list"].Append(Json("two"));
  ASSERT_NE(json.Find("a"), nullptr);
  EXPECT_EQ(*json.Find("a")->Find("b")->as_int(), 7);
  EXPECT_EQ(json.Find("c"), nullptr);
  EXPECT_EQ(json.Find("list")->Find("b"), nullptr) << "an array has no members";
  EXPECT_EQ(Parsed(json.Dump()), json);
}

}  // namespace
}  // namespace plumbline::fuzz

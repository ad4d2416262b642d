// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace plumbline::fuzz {

enum class Colour : uint8_t { kNone, kRed, kBlue };
inline constexpr std::array<std::string_view, 2> kColours = {"red", "blue"};

struct Part {
  std::string name;
  int64_t size = 0;
};

void Fields(FieldVisitor& io, Part& part) {
  io.AllowUnknown();
  io("name", part.name);
  io.AllowAbsent();
  io("size", part.size, 0, 9);
}

struct Whole {
  bool flag = false;
  int count = 1;
  double value = 0.5;
  Colour colour = Colour::kRed;
  uint64_t seed = 0;
  std::string note;
  std::vector<Part> parts;
  std::optional<Part> last;
};

void Fields(FieldVisitor& io, Whole& whole) {
  io("flag", whole.flag);
  io("count", whole.count, -4, 4);
  io("value", whole.value);
  io("colour", whole.colour, Names(kColours, 1));
  io.As("seed", std::to_string(whole.seed), [&](const std::string& s) { whole.seed = std::stoull(s); });
  io.IfSet("note", whole.note);
  io("parts", whole.parts);
  io.IfSet("last", whole.last);
}

namespace {

Whole Full() {
  Whole whole;
  whole.flag = true;
  whole.count = -3;
  whole.value = -std::numeric_limits<double>::infinity();
  whole.colour = Colour::kBlue;
  whole.seed = ~uint64_t{0};
  whole.note = "a \"note\"\n";
  whole.parts = {{"one", 1}, {"", 9}};
  whole.last = Part{"last", 3};
  return whole;
}

constexpr const char* kFull =
    R"({"colour":"blue","count":-3,"flag":true,"last":{"name":"last","size":3},"note":"a \"note\"\n",)"
    R"("parts":[{"name":"one","size":1},{"name":"","size":9}],"seed":"18446744073709551615","value":"-inf"})";
constexpr const char* kPlain =
    R"({"colour":"red","count":1,"flag":false,"parts":[],"seed":"0","value":0.5})";

// Fails if a field is written under another name, is left out or written although it is empty, or does
// not come back.
TEST(Fields, TheJsonFormComesBack) {
  EXPECT_EQ(ToJson(Full()).Dump(), kFull);
  EXPECT_EQ(ToJson(Whole()).Dump(), kPlain);
  for (const char* text : {kFull, kPlain}) {
    std::string error;
    const auto back = FromJson<Whole>(*Json::Parse(text, &error), "whole", &error);
    ASSERT_TRUE(back) << error;
    EXPECT_EQ(ToJson(*back).Dump(), text);
  }
}

// Fails if the form in bytes loses a field, keeps a piece of the record that was read before, or does
// not stop at the record's end.
TEST(Fields, TheFormInBytesComesBack) {
  std::vector<std::byte> bytes = ToBytes(Full());
  const std::vector<std::byte> plain = ToBytes(Whole());
  bytes.insert(bytes.end(), plain.begin(), plain.end());
  std::span<const std::byte> rest = bytes;
  for (const char* text : {kFull, kPlain}) {
    const auto back = FromBytes<Whole>(&rest);
    ASSERT_TRUE(back);
    EXPECT_EQ(ToJson(*back).Dump(), text);
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(FromBytes<Whole>(&rest));
}

// Each fails if the fault named is let through, or if its message names another place or value.
TEST(Fields, TheJsonReaderRefuses) {
  const std::pair<const char*, const char*> rows[] = {
      {R"([])", "whole is [], not an object"},
      {R"({"flag":1})", "whole.flag is 1, not a boolean"},
      {R"({"flag":true})", "whole.count is missing, not an integer"},
      {R"({"flag":true,"count":5})", "whole.count is 5, not an integer in [-4, 4]"},
      {R"({"flag":true,"count":1,"value":"x"})", "whole.value is \"x\", not a number"},
      {R"({"flag":true,"count":1,"value":1,"colour":"none"})",
       "whole.colour is \"none\", not one of red, blue"},
      {R"({"flag":true,"count":1,"value":1,"colour":"red","seed":"1","parts":{}})",
       "whole.parts is {}, not an array"},
      {R"({"flag":true,"count":1,"value":1,"colour":"red","seed":"1","parts":[{"name":""},{}]})",
       "whole.parts[1].name is missing, not a string"},
      {R"({"flag":true,"count":1,"value":1,"colour":"red","seed":"1","parts":[{"name":""},7]})",
       "whole.parts[1] is 7, not an object"},
      {R"({"flag":true,"count":1,"value":1,"colour":"red","seed":"1","parts":[],"last":{"name":"","size":10}})",
       "whole.last.size is 10, not an integer in [0, 9]"},
      {R"({"flag":true,"count":1,"value":1,"colour":"red","seed":"1","parts":[],"odd":2})",
       "whole.odd is an unknown key, with the value 2"}};
  for (const auto& [text, expected] : rows) {
    std::string error;
    const auto json = Json::Parse(text, &error);
    ASSERT_TRUE(json) << text;
    EXPECT_FALSE(FromJson<Whole>(*json, "whole", &error)) << text;
    EXPECT_EQ(error, expected);
  }
}

// Fails if a record that allows unknown fields refuses one, or if a field that may be absent loses its
// default.
TEST(Fields, ARecordMayAllowUnknownAndAbsentFields) {
  std::string error;
  const auto json = Json::Parse(R"({"name":"n","odd":{}})", &error);
  const auto part = FromJson<Part>(*json, "part", &error);
  ASSERT_TRUE(part) << error;
  EXPECT_EQ(part->size, 0);
}

}  // namespace
}  // namespace plumbline::fuzz

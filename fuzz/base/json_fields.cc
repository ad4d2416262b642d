// SPDX-License-Identifier: Apache-2.0
//
// A record's fields as JSON.

#include <algorithm>
#include <utility>

#include "fuzz/base/fields.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

class JsonWriter final : public FieldVisitor {
 public:
  explicit JsonWriter(Json* root) : open_{root} {}

  void operator()(std::string_view key, bool& value) override { Put(key, value); }
  void operator()(std::string_view key, int64_t& value) override { Put(key, value); }
  void operator()(std::string_view key, double& value) override { Put(key, value); }
  void operator()(std::string_view key, std::string& value) override { Put(key, value); }
  void Verbatim(std::string_view key, Json& value) override { Put(key, value); }
  bool Has(std::string_view, bool present) override { return present; }

 private:
  Json& Put(std::string_view key, Json value) {
    Json& open = *open_.back();
    return open.as_array() != nullptr ? open.Append(std::move(value)) : open[key] = std::move(value);
  }
  size_t Open(std::string_view key, Shape shape, size_t size) override {
    open_.push_back(&Put(key, shape == Shape::kArray ? Json(Json::Array()) : Json(Json::Object())));
    return size;
  }
  void Close() override { open_.pop_back(); }
  void Choose(std::string_view key, size_t& index, Names names) override { Put(key, names.all[index]); }

  std::vector<Json*> open_;
};

// Keeps the first error and reads on, so that a list of fields asks nobody whether it may go on.
class JsonReader final : public FieldVisitor {
 public:
  JsonReader(const Json& json, std::string path) {
    if (json.as_object() == nullptr) Refuse(path + " is " + Abridged(json.Dump()) + ", not an object");
    Push(json.as_object() != nullptr ? &json : nullptr, std::move(path));
  }

  std::string Finish() {
    Close();
    return std::move(error_);
  }

  bool reading() const override { return true; }
  void operator()(std::string_view key, bool& value) override {
    Read(key, "a boolean", &Json::as_bool, &value);
  }
  void operator()(std::string_view key, int64_t& value) override {
    Read(key, "an integer", &Json::as_int, &value);
  }
  void operator()(std::string_view key, double& value) override {
    Read(key, "a number", &Json::as_number, &value);
  }
  void operator()(std::string_view key, std::string& value) override {
    Read(key, "a string", &Json::as_string, &value);
  }
  void Verbatim(std::string_view key, Json& value) override {
    if (const Json* json = Expect(key, "a value")) value = *json;
  }
  bool Has(std::string_view key, bool) override { return Member(key) != nullptr; }
  void AllowAbsent() override { levels_.back().may_lack = true; }
  void AllowUnknown() override { levels_.back().may_hold = true; }
  void Wrong(std::string_view key, std::string_view expected) override {
    const Json* got = Member(key);
    Refuse(PathOf(key) + " is " + (got == nullptr ? "missing" : Abridged(got->Dump())) + ", not " +
           std::string(expected));
  }
  void Refuse(std::string why) override {
    if (error_.empty()) error_ = std::move(why);
  }

 private:
  struct Level {
    const Json* json;  // null if it is absent or wrong: nothing in it is read
    std::string path;
    size_t next = 0;  // of an array
    bool may_lack = false, may_hold = false;
    std::vector<std::string_view> known = {};
  };

  void Push(const Json* json, std::string path) {
    levels_.push_back({.json = json, .path = std::move(path)});
  }

  std::string PathOf(std::string_view key) const {
    const Level& level = levels_.back();
    if (key.empty()) return level.path + "[" + std::to_string(level.next - 1) + "]";
    return level.path + "." + std::string(key);
  }

  // Returns the member, or the present element of an array, or null.
  const Json* Member(std::string_view key) {
    Level& level = levels_.back();
    if (level.json == nullptr) return nullptr;
    if (key.empty()) return &(*level.json->as_array())[level.next - 1];
    level.known.push_back(key);
    return level.json->Find(key);
  }

  // Like Member, and refuses what is missing but required.
  const Json* Expect(std::string_view key, std::string_view expected) {
    Level& level = levels_.back();
    if (key.empty()) ++level.next;
    const Json* json = Member(key);
    if (json == nullptr && level.json != nullptr && !level.may_lack) Wrong(key, expected);
    return json;
  }

  template <class Got, class Value>
  void Read(std::string_view key, std::string_view expected, Got (Json::*as)() const, Value* value) {
    const Json* json = Expect(key, expected);
    if (json == nullptr) return;
    if (const Got got = (json->*as)()) {
      *value = *got;
    } else {
      Wrong(key, expected);
    }
  }

  size_t Open(std::string_view key, Shape shape, size_t) override {
    const bool array = shape == Shape::kArray;
    const std::string_view expected = array ? "an array" : "an object";
    const Json* json = Expect(key, expected);
    if (json != nullptr && (array ? json->as_array() == nullptr : json->as_object() == nullptr)) {
      Wrong(key, expected);
      json = nullptr;
    }
    Push(json, PathOf(key));
    return array && json != nullptr ? json->as_array()->size() : 0;
  }

  void Close() override {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.json == nullptr || level.json->as_object() == nullptr || level.may_hold) return;
    for (const auto& [key, value] : *level.json->as_object()) {
      if (std::find(level.known.begin(), level.known.end(), key) == level.known.end()) {
        Refuse(level.path + "." + Abridged(key) + " is an unknown key, with the value " +
               Abridged(value.Dump()));
      }
    }
  }

  void Choose(std::string_view key, size_t& index, Names names) override {
    const std::string expected = "one of " + Choices(names);
    const Json* json = Expect(key, expected);
    if (json == nullptr) return;
    const std::string* name = json->as_string();
    const auto read = name != nullptr ? ValueOf<size_t>(*name, names) : std::nullopt;
    if (read) {
      index = *read - names.first;
    } else {
      Wrong(key, expected);
    }
  }

  bool sound() const override { return error_.empty(); }

  std::vector<Level> levels_;
  std::string error_;
};

}  // namespace

Json WriteJson(const VisitFields& visit) {
  Json json{Json::Object()};
  JsonWriter writer(&json);
  visit(writer);
  return json;
}

std::string ReadJson(const Json& json, std::string path, const VisitFields& visit) {
  JsonReader reader(json, std::move(path));
  visit(reader);
  return reader.Finish();
}

}  // namespace plumbline::fuzz

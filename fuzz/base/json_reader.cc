// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/json_reader.h"

#include <algorithm>
#include <utility>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

template <class Number>
std::string Range(std::string_view what, Number least, Number most) {
  return std::string(what) + " in [" + Json(least).Dump() + ", " + Json(most).Dump() + "]";
}

}  // namespace

JsonReader::JsonReader(const Json* json, std::string path, Presence presence)
    : path_(std::move(path)), presence_(presence) {
  if (json != nullptr) object_ = json->as_object();
  if (object_ == nullptr && (json != nullptr || presence == Presence::kRequired)) {
    Refuse(path_ + " is " + (json == nullptr ? "missing" : Abridged(json->Dump())) + ", not an object");
  }
}

const Json* JsonReader::Member(std::string_view key) {
  known_.emplace_back(key);
  if (object_ == nullptr) return nullptr;
  const auto it = object_->find(key);
  return it == object_->end() ? nullptr : &it->second;
}

const Json* JsonReader::Expect(std::string_view key, std::string_view expected) {
  const Json* json = Member(key);
  if (json == nullptr && presence_ == Presence::kRequired) Wrong(key, nullptr, expected);
  return json;
}

void JsonReader::Read(std::string_view key, bool* value) {
  const Json* json = Expect(key, "a boolean");
  if (json == nullptr) return;
  const bool* got = json->as_bool();
  if (got == nullptr) return Wrong(key, json, "a boolean");
  *value = *got;
}

void JsonReader::Read(std::string_view key, std::string* value) {
  const Json* json = Expect(key, "a string");
  if (json == nullptr) return;
  const std::string* got = json->as_string();
  if (got == nullptr) return Wrong(key, json, "a string");
  *value = *got;
}

void JsonReader::Read(std::string_view key, int64_t* value, int64_t least, int64_t most) {
  const Json* json = Expect(key, "an integer");
  if (json == nullptr) return;
  const int64_t* got = json->as_int();
  if (got == nullptr) return Wrong(key, json, "an integer");
  if (*got < least || *got > most) return Wrong(key, json, Range("an integer", least, most));
  *value = *got;
}

void JsonReader::Read(std::string_view key, int* value, int least, int most) {
  int64_t wide = *value;
  Read(key, &wide, least, most);
  *value = static_cast<int>(wide);
}

void JsonReader::Read(std::string_view key, double* value, double least, double most) {
  const Json* json = Expect(key, "a number");
  if (json == nullptr) return;
  const auto got = json->as_number();
  // Written so that a NaN is out of every range.
  if (!got || !(*got >= least && *got <= most)) return Wrong(key, json, Range("a number", least, most));
  *value = *got;
}

void JsonReader::Wrong(std::string_view key, const Json* got, std::string_view expected) {
  Refuse(path_ + "." + std::string(key) + " is " +
         (got == nullptr ? "missing" : Abridged(got->Dump())) + ", not " + std::string(expected));
}

void JsonReader::Adopt(JsonReader& inner) {
  if (std::string why = inner.Error(); !why.empty()) Refuse(std::move(why));
}

std::string JsonReader::Error() {
  if (object_ != nullptr) {
    for (const auto& [key, value] : *object_) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        Refuse(path_ + "." + Abridged(key) + " is an unknown key, with the value " +
               Abridged(value.Dump()));
      }
    }
  }
  return error_;
}

void JsonReader::Refuse(std::string why) {
  if (error_.empty()) error_ = std::move(why);
}

}  // namespace plumbline::fuzz

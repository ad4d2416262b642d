// SPDX-License-Identifier: Apache-2.0
//
// A JSON value. Only json.cc includes the JSON library, whose headers are slow to compile. Objects keep
// their keys sorted: the same value always gives the same bytes.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plumbline::fuzz {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() = default;  // null
  Json(bool value) : value_(value) {}
  Json(int64_t value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(double value)
      : value_(value) {}  // NaN and infinities are written as strings "nan", "inf", "-inf"
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&value_); }
  std::optional<double> as_number() const;  // an int, a double, or the strings above
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }

  // Returns a member of an object; nullptr if this is no object or has no such key.
  const Json* Find(std::string_view key) const;
  // Makes this an object if it is null.
  Json& operator[](std::string_view key);
  Json& Append(Json value);  // makes this an array if it is null; returns the element

  // Writes compact text (indent < 0) or indented text. Keys are sorted, text is UTF-8, and doubles have
  // their shortest exact form.
  std::string Dump(int indent = -1) const;
  // Refuses trailing text, duplicate keys, integers beyond int64, and nesting deeper than 64.
  static std::optional<Json> Parse(std::string_view text, std::string* error);

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace plumbline::fuzz

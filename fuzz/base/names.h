// SPDX-License-Identifier: Apache-2.0
//
// The names of an enumeration, as files and command lines spell them.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

// The names of consecutive values, the first of which is `first`.
struct Names {
  std::span<const std::string_view> all;
  size_t first = 0;

  template <size_t kCount>
  constexpr Names(const std::array<std::string_view, kCount>& names, size_t begin = 0)
      : all(names), first(begin) {}
};

template <class Value>
std::string_view NameOf(Value value, Names names) {
  const size_t index = static_cast<size_t>(value) - names.first;
  return index < names.all.size() ? names.all[index] : "?";
}

template <class Value>
std::optional<Value> ValueOf(std::string_view name, Names names) {
  for (size_t i = 0; i < names.all.size(); ++i) {
    if (names.all[i] == name) return static_cast<Value>(names.first + i);
  }
  return std::nullopt;
}

// "none, sum, mean"
inline std::string Choices(Names names) {
  std::string text;
  for (const std::string_view name : names.all) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace plumbline::fuzz

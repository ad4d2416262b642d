// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/text.h"

#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace plumbline::fuzz {

std::string Text(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      printable += c;
    } else {
      printable += Text("\\x%02x", byte);
    }
  }
  return printable;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string Abridged(std::string text) {
  constexpr size_t kWhole = 200, kShown = 80;
  if (text.size() <= kWhole) return text;
  const size_t size = text.size();
  text.resize(kShown);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
  return text + Text("... (%zu bytes)", size);
}

std::string Number(double value) { return std::isnan(value) ? "nan" : Text("%.9g", value); }

std::string Allowed(double value, double bound) {
  return Number(value) + (bound > 0 ? Text(" ± %.3g", bound) : "");
}

std::string Place(std::string_view output, int64_t row, int64_t column) {
  std::string place(output);
  if (output == "loss" || row < 0) return place;
  if (column < 0 || !output.starts_with("grad")) return place + Text("[%" PRId64 "]", row);
  return place + Text("[%" PRId64 ", %" PRId64 "]", row, column);
}

}  // namespace plumbline::fuzz

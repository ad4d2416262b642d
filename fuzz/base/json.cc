// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

using Library = nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Builds a Json from the library's events. It is a SAX handler rather than the library's own document
// because only here can a duplicate key be seen, or an integer that the lexer silently turned into a
// double.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  Json Take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return Add(Json()); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Refuse("integer " + std::to_string(value) + " does not fit 64 signed bits");
    }
    return Add(Json(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) {
      return Refuse("integer " + Abridged(text) + " does not fit 64 signed bits");
    }
    return Add(Json(value));
  }
  bool string(string_t& value) override { return Add(Json(std::move(value))); }
  bool binary(binary_t&) override { return Refuse("binary values are not JSON"); }

  bool start_object(size_t) override { return Open(Json(Json::Object())); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(Json(Json::Array())); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    if (open_.back().value.Find(value) != nullptr && !Planted(HarnessDefect::kDuplicateKeys)) {
      return Refuse("duplicate key " + Abridged(Json(value).Dump()));
    }
    open_.back().key = std::move(value);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& exception) override {
    const std::string_view what = exception.what();
    const size_t end_of_code = what.find("] ");
    // The library's message quotes the token at which it stopped, which may be megabytes of anything.
    return Refuse(Abridged(
        Printable(std::string(end_of_code == what.npos ? what : what.substr(end_of_code + 2)))));
  }

 private:
  struct Level {
    Json value;
    std::string key;  // the next member's, in an object
  };

  bool Refuse(std::string why) {
    error_ = std::move(why);
    return false;
  }

  bool Open(Json value) {
    if (open_.size() == kMaxDepth) {
      return Refuse("nested deeper than " + std::to_string(kMaxDepth));
    }
    open_.push_back({std::move(value), {}});
    return true;
  }

  bool Close() {
    Json closed = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(closed));
  }

  bool Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = open_.back(); level.value.as_array() != nullptr) {
      level.value.Append(std::move(value));
    } else {
      level.value[level.key] = std::move(value);
    }
    return true;
  }

  std::vector<Level> open_;
  Json root_;
  std::string error_;
};

void WriteString(const std::string& text, std::string* out) {
  // A target's messages may hold any bytes: what is not UTF-8 becomes U+FFFD rather than an exception.
  *out += Library(text).dump(-1, ' ', false, Library::error_handler_t::replace);
}

void WriteDouble(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "\"nan\"";
    return;
  }
  if (std::isinf(value)) {
    *out += value > 0 ? "\"inf\"" : "\"-inf\"";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  *out += text;
  // Without a decimal point the number would be read back as an integer, and -0 as 0.
  if (text.find_first_of(".e") == text.npos) *out += ".0";
}

class Writer {
 public:
  Writer(int indent, std::string* out) : indent_(indent), out_(out) {}

  void Write(const Json& value, int depth) {
    if (value.is_null()) {
      *out_ += "null";
    } else if (const bool* b = value.as_bool()) {
      *out_ += *b ? "true" : "false";
    } else if (const int64_t* i = value.as_int()) {
      *out_ += std::to_string(*i);
    } else if (const std::string* s = value.as_string()) {
      WriteString(*s, out_);
    } else if (const Json::Array* array = value.as_array()) {
      bool first = true;
      *out_ += '[';
      for (const Json& element : *array) {
        Separate(&first, depth + 1);
        Write(element, depth + 1);
      }
      End(']', first, depth);
    } else if (const Json::Object* object = value.as_object()) {
      bool first = true;
      *out_ += '{';
      for (const auto& [key, member] : *object) {
        Separate(&first, depth + 1);
        WriteString(key, out_);
        *out_ += indent_ < 0 ? ":" : ": ";
        Write(member, depth + 1);
      }
      End('}', first, depth);
    } else {
      WriteDouble(*value.as_number(), out_);
    }
  }

 private:
  void NewLine(int depth) {
    if (indent_ < 0) return;
    *out_ += '\n';
    out_->append(static_cast<size_t>(indent_ * depth), ' ');
  }
  void Separate(bool* first, int depth) {
    if (!*first) *out_ += ',';
    *first = false;
    NewLine(depth);
  }
  void End(char bracket, bool empty, int depth) {
    if (!empty) NewLine(depth);
    *out_ += bracket;
  }

  const int indent_;
  std::string* const out_;
};

}  // namespace

std::optional<double> Json::as_number() const {
  if (const int64_t* i = as_int()) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&value_)) return *d;
  if (const std::string* s = as_string()) {
    if (*s == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (*s == "inf") return std::numeric_limits<double>::infinity();
    if (*s == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return std::nullopt;
}

const Json* Json::Find(std::string_view key) const {
  const Object* object = as_object();
  if (object == nullptr) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &it->second;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  auto& object = std::get<Object>(value_);
  const auto it = object.find(key);
  if (it != object.end()) return it->second;
  return object.emplace(std::string(key), Json()).first->second;
}

Json& Json::Append(Json value) {
  if (is_null()) value_ = Array();
  return std::get<Array>(value_).emplace_back(std::move(value));
}

std::string Json::Dump(int indent) const {
  std::string out;
  Writer(indent, &out).Write(*this, 0);
  return out;
}

std::optional<Json> Json::Parse(std::string_view text, std::string* error) {
  // The library's lexer takes a zero byte for the end of its input and would pass over what follows.
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    *error = "a zero byte at offset " + std::to_string(zero);
    return std::nullopt;
  }
  Builder builder;
  if (!Library::sax_parse(text.begin(), text.end(), &builder, Library::input_format_t::json,
                          /*strict=*/true)) {
    *error = builder.error();
    return std::nullopt;
  }
  return builder.Take();
}

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// A record lists its fields once, in a function beside its type:
//
//   void Fields(FieldVisitor& io, StoredFinding& kept) {
//     io("file", kept.file);
//     io("finding", kept.finding);  // a record in a record
//     io.IfSet("note", kept.note);  // left out if empty
//   }
//
// ToJson, FromJson, ToBytes and FromBytes take the record through that list. A visitor that writes
// leaves the record as it is.
//
// The JSON form is for files. Its reader is strict: a field that is missing, of another type, out of
// range, or unknown is an error that names its path and value, such as "case.target is 3, not a
// string". The form in bytes is for the pipe between two processes of one program: the values alone, in
// the order of the list.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/base/names.h"

namespace plumbline::fuzz {

class FieldVisitor;

template <class R>
concept HasFields = requires(FieldVisitor& io, R& record) {
  Fields(io, record);
};

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  // True if values are read, false if they are written. A value that is absent or of another type stays
  // as it was.
  virtual bool reading() const { return false; }

  virtual void operator()(std::string_view key, bool& value) = 0;
  virtual void operator()(std::string_view key, int64_t& value) = 0;
  virtual void operator()(std::string_view key, double& value) = 0;  // NaN and infinities as well
  virtual void operator()(std::string_view key, std::string& value) = 0;
  virtual void Verbatim(std::string_view, Json&) {}  // any JSON; the form in bytes leaves it out

  void operator()(std::string_view key, int64_t& value, int64_t least, int64_t most);
  void operator()(std::string_view key, int& value, int least, int most);
  void operator()(std::string_view key, double& value, double least, double most);  // refuses NaN

  template <class Enum>
  void operator()(std::string_view key, Enum& value, Names names) {
    size_t index = static_cast<size_t>(value) - names.first;
    Choose(key, index, names);
    if (reading()) value = static_cast<Enum>(names.first + index);
  }

  template <HasFields R>
  void operator()(std::string_view key, R& record) {
    Open(key, Shape::kObject, 0);
    Fields(*this, record);
    Close();
  }

  template <class Element>
  void operator()(std::string_view key, std::vector<Element>& list) {
    const size_t size = Open(key, Shape::kArray, list.size());
    for (size_t i = 0; i < size && sound(); ++i) {
      if (reading()) list.emplace_back();
      (*this)({}, list[i]);
    }
    Close();
  }

  // For a field that may be absent: returns whether it is there, which `present` says when writing.
  virtual bool Has(std::string_view key, bool present) = 0;

  // A field that is left out if it is empty, false or zero.
  template <class Value>
  void IfSet(std::string_view key, Value& value) {
    if constexpr (requires { value.empty(); }) {
      if (Has(key, !value.empty())) (*this)(key, value);
    } else {
      if (Has(key, value != Value{})) (*this)(key, value);
    }
  }
  template <class Value>
  void IfSet(std::string_view key, std::optional<Value>& value) {
    if (!Has(key, value.has_value())) return;
    if (reading()) value.emplace();
    (*this)(key, *value);
  }

  // A field that is stored in another form, which take() turns into the value if nothing was refused.
  template <class Stored, class Take>
  void As(std::string_view key, Stored stored, const Take& take) {
    (*this)(key, stored);
    if (reading() && sound()) take(std::move(stored));
  }
  // A field that is stored as text. parse(text, &why) returns an optional.
  template <class Value, class Parse>
  void AsText(std::string_view key, Value& value, std::string text, const Parse& parse) {
    As(key, std::move(text), [&](const std::string& read) {
      std::string why;
      if (const auto parsed = parse(read, &why)) {
        value = *parsed;
      } else {
        Refuse(std::move(why));
      }
    });
  }

  // The fields of this record that follow may be absent.
  virtual void AllowAbsent() {}
  // Unknown fields of this record are passed over.
  virtual void AllowUnknown() {}

  // Refuse what was read. Writing takes no notice.
  virtual void Wrong(std::string_view, std::string_view) {}  // "KEY is X, not EXPECTED"
  virtual void Refuse(std::string) {}

 protected:
  enum class Shape : uint8_t { kObject, kArray };
  virtual size_t Open(std::string_view key, Shape shape, size_t size) = 0;  // the size of an array
  virtual void Close() {}
  virtual void Choose(std::string_view key, size_t& index, Names names) = 0;
  virtual bool sound() const { return true; }  // false after a refusal
};

using VisitFields = std::function<void(FieldVisitor& io)>;
Json WriteJson(const VisitFields& visit);
std::string ReadJson(const Json& json, std::string path, const VisitFields& visit);  // the refusal
std::vector<std::byte> WriteBytes(const VisitFields& visit);
bool ReadBytes(std::span<const std::byte>* bytes, const VisitFields& visit);

template <HasFields R>
Json ToJson(const R& record) {
  return WriteJson([&](FieldVisitor& io) { Fields(io, const_cast<R&>(record)); });
}

// `path` is the record's name in the error: "case".
template <HasFields R>
std::optional<R> FromJson(const Json& json, std::string path, std::string* error) {
  R record;
  std::string why = ReadJson(json, std::move(path), [&](FieldVisitor& io) { Fields(io, record); });
  if (why.empty()) return record;
  *error = std::move(why);
  return std::nullopt;
}

template <HasFields R>
std::vector<std::byte> ToBytes(const R& record) {
  return WriteBytes([&](FieldVisitor& io) { Fields(io, const_cast<R&>(record)); });
}

// Moves *bytes to what follows the record. Returns nullopt for bytes that ToBytes does not write.
template <HasFields R>
std::optional<R> FromBytes(std::span<const std::byte>* bytes) {
  R record;
  if (!ReadBytes(bytes, [&](FieldVisitor& io) { Fields(io, record); })) return std::nullopt;
  return record;
}

}  // namespace plumbline::fuzz

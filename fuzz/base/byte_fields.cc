// SPDX-License-Identifier: Apache-2.0
//
// A record's fields as bytes: numbers in this machine's form, a string or an array after its size, an
// enumerator as its number, and a byte that says whether an optional field follows.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "fuzz/base/fields.h"
#include "fuzz/base/json.h"

namespace plumbline::fuzz {
namespace {

class ByteWriter final : public FieldVisitor {
 public:
  std::vector<std::byte> bytes;

  void operator()(std::string_view, bool& value) override { Put(&value, sizeof value); }
  void operator()(std::string_view, int64_t& value) override { Put(&value, sizeof value); }
  void operator()(std::string_view, double& value) override { Put(&value, sizeof value); }
  void operator()(std::string_view, std::string& value) override {
    PutSize(value.size());
    Put(value.data(), value.size());
  }
  bool Has(std::string_view, bool present) override {
    Put(&present, sizeof present);
    return present;
  }

 private:
  void Put(const void* data, size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  }
  void PutSize(uint64_t size) { Put(&size, sizeof size); }
  size_t Open(std::string_view, Shape shape, size_t size) override {
    if (shape == Shape::kArray) PutSize(size);
    return size;
  }
  void Choose(std::string_view, size_t& index, Names) override {
    const auto number = static_cast<uint8_t>(index);
    Put(&number, sizeof number);
  }
};

// Trusts no byte: a target may write anything into the worker's socket.
class ByteReader final : public FieldVisitor {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::span<const std::byte> rest() const { return rest_; }
  bool sound() const override { return sound_; }

  bool reading() const override { return true; }
  void operator()(std::string_view, bool& value) override { value = TakeNumber(2) != 0; }
  void operator()(std::string_view, int64_t& value) override { Take(&value, sizeof value); }
  void operator()(std::string_view, double& value) override { Take(&value, sizeof value); }
  void operator()(std::string_view, std::string& value) override {
    value.resize(TakeSize());
    Take(value.data(), value.size());
    // What a target says may be no UTF-8. As JSON it would be, with U+FFFD for each wrong byte.
    if (std::any_of(value.begin(), value.end(), [](char c) { return (c & 0x80) != 0; })) {
      std::string unused;
      const std::optional<Json> text = Json::Parse(Json(value).Dump(), &unused);
      if (text) value = *text->as_string();
    }
  }
  bool Has(std::string_view, bool) override { return TakeNumber(2) != 0; }
  void Wrong(std::string_view, std::string_view) override { sound_ = false; }
  void Refuse(std::string) override { sound_ = false; }

 private:
  void Take(void* data, size_t size) {
    if (size > rest_.size()) sound_ = false;
    if (!sound_ || size == 0) return;
    std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  size_t TakeNumber(size_t below) {
    uint8_t number = 0;
    Take(&number, sizeof number);
    if (number < below) return number;
    sound_ = false;
    return 0;
  }
  // No element is shorter than a byte, so a false size costs no memory.
  size_t TakeSize() {
    uint64_t size = 0;
    Take(&size, sizeof size);
    if (size <= rest_.size()) return static_cast<size_t>(size);
    sound_ = false;
    return 0;
  }
  size_t Open(std::string_view, Shape shape, size_t) override {
    return shape == Shape::kArray ? TakeSize() : 0;
  }
  void Choose(std::string_view, size_t& index, Names names) override {
    index = TakeNumber(names.all.size());
  }

  std::span<const std::byte> rest_;
  bool sound_ = true;
};

}  // namespace

std::vector<std::byte> WriteBytes(const VisitFields& visit) {
  ByteWriter writer;
  visit(writer);
  return std::move(writer.bytes);
}

bool ReadBytes(std::span<const std::byte>* bytes, const VisitFields& visit) {
  ByteReader reader(*bytes);
  visit(reader);
  *bytes = reader.rest();
  return reader.sound();
}

}  // namespace plumbline::fuzz

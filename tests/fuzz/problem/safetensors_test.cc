// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using ::testing::HasSubstr;

std::vector<std::byte> Bytes(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Makes a file with this header, verbatim, and so many bytes of data.
std::vector<std::byte> File(std::string_view header, size_t data_size) {
  std::vector<std::byte> bytes(8);
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  for (const std::byte b : Bytes(header)) bytes.push_back(b);
  for (size_t i = 0; i < data_size; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

std::string Refusal(const std::vector<std::byte>& bytes) {
  std::string error;
  EXPECT_FALSE(ReadSafeTensors(bytes, &error).has_value());
  EXPECT_FALSE(error.empty());
  return error;
}

SafeTensors Example() {
  SafeTensors content;
  content.tensors["a"] = {DType::kBf16, {1, 2}, Bytes("\x01\x02\x03\x04")};
  content.tensors["b"] = {DType::kI64, {1}, Bytes("ABCDEFGH")};
  content.tensors["c"] = {DType::kF32, {}, Bytes("wxyz")};
  content.tensors["empty"] = {DType::kF16, {0, 7}, {}};
  content.tensors["i"] = {DType::kI32, {2}, Bytes("01234567")};
  content.metadata["case"] = "{\"k\":\"v\\n\"}";
  return content;
}

// The expected file is written out by hand from the format's definition (safetensors README). Fails if
// a dtype name, an offset, the order of keys, of data, or the padding changes. Stored cases are named
// by a hash of it.
TEST(SafeTensors, WritesTheseVeryBytes) {
  std::string header = R"({"__metadata__":{"case":"{\"k\":\"v\\n\"}"},)"
                       R"("a":{"data_offsets":[20,24],"dtype":"BF16","shape":[1,2]},)"
                       R"("b":{"data_offsets":[0,8],"dtype":"I64","shape":[1]},)"
                       R"("c":{"data_offsets":[8,12],"dtype":"F32","shape":[]},)"
                       R"("empty":{"data_offsets":[24,24],"dtype":"F16","shape":[0,7]},)"
                       R"("i":{"data_offsets":[12,20],"dtype":"I32","shape":[2]}})";
  while (header.size() % 8 != 0) header += ' ';
  std::vector<std::byte> expected = File(header, 0);
  for (const std::byte b : Bytes("ABCDEFGHwxyz01234567\x01\x02\x03\x04")) expected.push_back(b);
  EXPECT_EQ(WriteSafeTensors(Example()), expected);
}

// Fails if reading loses or invents a tensor, a bit, a shape or metadata, or writing is not canonical.
TEST(SafeTensors, RoundTrip) {
  for (const SafeTensors& content : {Example(), SafeTensors{}}) {
    const std::vector<std::byte> once = WriteSafeTensors(content);
    std::string error;
    const auto back = ReadSafeTensors(once, &error);
    ASSERT_TRUE(back.has_value()) << error;
    EXPECT_EQ(back->tensors, content.tensors);
    EXPECT_EQ(back->metadata, content.metadata);
    EXPECT_EQ(WriteSafeTensors(*back), once);
  }
}

// A file as other writers make it: keys unsorted, white space, data in another order. Fails if the
// reader only reads files of its own writer.
TEST(SafeTensors, ReadsForeignOrder) {
  std::string error;
  const auto got = ReadSafeTensors(File(R"( {"z": {"shape":[2], "dtype":"F16", "data_offsets":[0,4]},
               "y": {"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}   )",
                                        8),
                                   &error);
  ASSERT_TRUE(got.has_value()) << error;
  EXPECT_EQ(got->tensors.at("z").bytes, Bytes(std::string_view("\0\1\2\3", 4)));
  EXPECT_EQ(got->tensors.at("y").bytes, Bytes("\4\5\6\7"));
  EXPECT_EQ(got->tensors.at("y").shape, (std::vector<int64_t>{1, 1}));
}

// Fails if any length is trusted before it is checked: every truncation of a valid file must be
// refused. A truncated header is covered because its length then passes the end of the file.
TEST(SafeTensors, RefusesEveryTruncation) {
  const std::vector<std::byte> whole = WriteSafeTensors(Example());
  for (size_t size = 0; size < whole.size(); ++size) {
    Refusal(std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

// Fails if a byte after the data is passed over.
TEST(SafeTensors, RefusesWhatFollowsTheData) {
  std::vector<std::byte> bytes = WriteSafeTensors(Example());
  bytes.push_back(std::byte{0});
  EXPECT_THAT(Refusal(bytes), HasSubstr("1 bytes of data belong to no tensor"));
}

// Fails on header lengths beyond the file, for a missing bound or for 8 + length computed in wrapping
// arithmetic.
TEST(SafeTensors, RefusesLyingHeaderLengths) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{100}, (uint64_t{16} << 20) + 1,
                                ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::vector<std::byte> bytes = File("{}", 0);
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(Refusal(bytes), HasSubstr("header")) << length;
  }
  EXPECT_THAT(Refusal(Bytes("1234567")), HasSubstr("7 bytes"));
}

// Fails if a file of another kind is refused by a number that nobody can read.
TEST(SafeTensors, NamesWhatElseAFileIs) {
  using namespace std::string_literals;
  const std::pair<std::string, std::string> files[] = {{"PK\3\4\0\0\10\10"s, "torch.save"},
                                                       {"\x80\2\x8a\nl\xfc\x9c\x46"s, "pickle"},
                                                       {"\x93NUMPY\1\0"s, ".npy"},
                                                       {"\x89HDF\r\n\x1a\n"s, "HDF5"},
                                                       {"import torch\n"s, "text"}};
  for (const auto& [bytes, words] : files) {
    EXPECT_THAT(Refusal(Bytes(bytes)), ::testing::AllOf(HasSubstr("looks like"), HasSubstr(words)));
  }
  EXPECT_THAT(Refusal(Bytes(std::string(16, '\xff'))), HasSubstr("header length 18446744073709551615"));
}

// Each line fails if its refusal is dropped. The text must name what was refused.
TEST(SafeTensors, RefusesLyingHeaders) {
  const auto tensor = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "{\"t\":{\"dtype\":" + std::string(dtype) + ",\"shape\":" + std::string(shape) +
           ",\"data_offsets\":" + std::string(offsets) + "}}";
  };
  struct Row {
    std::string header;
    size_t data;
    std::string names;
  };
  const Row rows[] = {
      {"[]", 0, "not a JSON object"},
      {"{\"t\":1}", 0, "\"t\": is 1"},
      {"{\"t\":{}}", 0, "dtype"},
      {"{} x", 0, "header: "},
      {tensor("\"U8\"", "[4]", "[0,4]"), 4, "U8"},
      {tensor("\"F64\"", "[1]", "[0,8]"), 8, "F64"},
      {tensor("3", "[4]", "[0,4]"), 4, "dtype"},
      {tensor("\"F32\"", "4", "[0,4]"), 4, "shape"},
      {tensor("\"F32\"", "[1,1,1]", "[0,4]"), 4, "[1, 1, 1] has 3 dimensions"},
      {tensor("\"F32\"", "[2,8,64]", "[0,4096]"), 4096, "flatten batch and sequence: [16, 64]"},
      {tensor("\"F32\"", "[4294967296,4294967296,2]", "[0,0]"), 0, "3 dimensions, at most 2 are read"},
      {tensor("\"F64\"", "[1]", "[0,8]"), 8, "cast it: x.float()"},
      {tensor("\"BOOL\"", "[8]", "[0,8]"), 8, "cast it: x.long()"},
      {tensor("\"F32\"", "[-1]", "[0,4]"), 4, "-1"},
      {tensor("\"F32\"", "[1.0]", "[0,4]"), 4, "1.0"},
      {tensor("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
      {tensor("\"I64\"", "[4611686018427387904]", "[0,0]"), 0, "overflows"},
      {tensor("\"F32\"", "[1]", "[0]"), 4, "data_offsets"},
      {tensor("\"F32\"", "[1]", "[0,4,8]"), 4, "data_offsets"},
      {tensor("\"F32\"", "[1]", "[0,4.0]"), 4, "data_offsets"},
      {tensor("\"F32\"", "[1]", "[-4,0]"), 4, "[-4,0]"},
      {tensor("\"F32\"", "[1]", "[4,0]"), 4, "[4,0]"},
      {tensor("\"F32\"", "[1]", "[0,8]"), 4, "outside the 4 bytes"},
      {tensor("\"F32\"", "[2]", "[0,4]"), 4, "span 4 bytes, its shape and dtype 8"},
      {tensor("\"F32\"", "[1]", "[4,8]"), 8, "hole"},
      {tensor("\"F32\"", "[]", "[0,4]"), 8, "4 bytes of data belong to no tensor"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":[1]}})", 4, "stride"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{}})", 4, "duplicate"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "overlap"},
      {R"({"__metadata__":[]})", 0, "__metadata__"},
      {R"({"__metadata__":{"case":{}}})", 0, "\"case\" is not a string"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(Refusal(File(row.header, row.data)), HasSubstr(row.names)) << row.header;
  }
}

// Damages a valid file at random: whatever is still accepted must be consistent with itself. Under ASan
// this fails on any read outside the file; here it fails if a tensor's bytes and shape disagree.
TEST(SafeTensors, SurvivesRandomDamage) {
  const std::vector<std::byte> whole = WriteSafeTensors(Example());
  std::mt19937_64 random(20240521);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = whole;
    for (uint64_t k = random() % 3 + 1; k-- > 0;) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    std::string error;
    const auto got = ReadSafeTensors(bytes, &error);
    if (!got) {
      EXPECT_FALSE(error.empty());
      continue;
    }
    ++accepted;
    for (const auto& [name, tensor] : got->tensors) {
      size_t size = kernel::SizeOf(tensor.dtype);
      for (const int64_t extent : tensor.shape) size *= static_cast<size_t>(extent);
      EXPECT_EQ(tensor.bytes.size(), size) << name;
    }
  }
  EXPECT_GT(accepted, 0) << "damage to the data alone must not be refused";
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Reads the members of one JSON object strictly: a member that is missing where it is required, of
// another type, out of range, or unknown is an error that names its path and value. The first error is
// kept; reading goes on, so that a caller writes one straight list of members and asks once at the end.

#ifndef PLUMBLINE_FUZZ_BASE_JSON_READER_H_
#define PLUMBLINE_FUZZ_BASE_JSON_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {

enum class Presence : uint8_t { kRequired, kOptional };

class JsonReader {
 public:
  // json may be null, which means that the object itself is missing. path is its name in errors:
  // "problem.layout".
  JsonReader(const Json* json, std::string path, Presence presence);

  // *value stays as it was if the member is optional and absent, or wrong.
  void Read(std::string_view key, bool* value);
  void Read(std::string_view key, std::string* value);
  void Read(std::string_view key, int64_t* value, int64_t least = INT64_MIN, int64_t most = INT64_MAX);
  void Read(std::string_view key, int* value, int least, int most);
  void Read(std::string_view key, double* value, double least, double most);

  // Returns the member itself, for types that the above do not read; null if absent.
  const Json* Member(std::string_view key);
  // Refuses a member: "problem.reduction is 3, not one of none, sum, mean".
  void Wrong(std::string_view key, const Json* got, std::string_view expected);
  // Takes over another reader's error, if it has one.
  void Adopt(JsonReader& inner);

  // The first error, unknown keys included; empty if there is none.
  std::string Error();

 private:
  // Returns the member if it must be looked at; refuses one that is missing but required.
  const Json* Expect(std::string_view key, std::string_view expected);
  void Refuse(std::string why);

  std::string path_;
  Presence presence_;
  const Json::Object* object_ = nullptr;
  std::vector<std::string> known_;
  std::string error_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_JSON_READER_H_

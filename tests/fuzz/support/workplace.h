// SPDX-License-Identifier: Apache-2.0
//
// A folder that is removed with the test, and plug-ins compiled into it.

#pragma once

#include <filesystem>
#include <string>

namespace plumbline::fuzz::testing {

class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // Returns "plugin:PATH" of tests/fuzz/plugins/SOURCE, compiled with these flags under this name.
  std::string Plugin(const std::string& source, const std::string& name,
                     const std::string& flags) const;

  // Returns "plugin:PATH" of tests/fuzz/plugins/misbehaving.c, compiled with -DBEHAVIOUR=behaviour.
  std::string Misbehaving(const std::string& behaviour, const std::string& flags = "") const;

 private:
  std::filesystem::path path_;
};

}  // namespace plumbline::fuzz::testing

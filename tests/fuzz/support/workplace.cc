// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/support/workplace.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace plumbline::fuzz::testing {

Workplace::Workplace() {
  std::string name = (std::filesystem::temp_directory_path() / "plumbline-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

Workplace::~Workplace() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Workplace::Plugin(const std::string& source, const std::string& name,
                              const std::string& flags) const {
  const std::string root = PLUMBLINE_SOURCE_DIR;
  const std::string library = (path_ / (name + ".so")).string();
  const std::string command = "cc -shared -fPIC -O1 -I" + root + " " + flags + " " + root +
                              "/tests/fuzz/plugins/" + source + " -o " + library + " -lm";
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
  return "plugin:" + library;
}

std::string Workplace::Misbehaving(const std::string& behaviour, const std::string& flags) const {
  return Plugin("misbehaving.c", behaviour, "-DBEHAVIOUR=" + behaviour + " " + flags);
}

}  // namespace plumbline::fuzz::testing

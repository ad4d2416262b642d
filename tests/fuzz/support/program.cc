// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/support/program.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace plumbline::fuzz::testing {

std::string Slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Outcome Program::Run(const std::string& arguments, const std::string& before) const {
  const std::string command = "cd " + work_.path().string() + " && " + before + " " + PLUMB_PROGRAM +
                              " " + arguments + " 2> err";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.out.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!outcome.out.empty()) {
    const std::string body = outcome.out.substr(0, outcome.out.size() - 1);
    outcome.last = body.substr(body.rfind('\n') + 1);
  }
  return outcome;
}

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/support/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/fuzz/support/located.h"

extern char** environ;

namespace plumbline::fuzz::testing {

std::string Slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

namespace {

// Adds the time limits of a command that are not among its arguments.
std::vector<std::string> AmpleLimits(const std::string& command, const std::string& arguments) {
  std::vector<std::string> words;
  const auto give = [&](const char* limit) {
    if (arguments.find(limit) == std::string::npos) words.insert(words.end(), {limit, "10m"});
  };
  for (const char* of_cases : {"fuzz", "merge", "replay", "shrink"}) {
    if (command == of_cases) give("--case-timeout");
  }
  if (command == "shrink") give("--time");
  return words;
}

}  // namespace

Outcome Program::Run(const std::string& arguments, const std::string& before) const {
  const std::string command = arguments.substr(0, arguments.find(' '));
  std::string line = before + " " + LocatedProgram(PLUMB_PROGRAM) + " " + command;
  for (const std::string& word : AmpleLimits(command, arguments)) line += " " + word;
  return RunCommand(line + arguments.substr(command.size()));
}

Outcome Program::RunCommand(const std::string& command) const {
  Outcome outcome;
  std::FILE* pipe = popen(("cd " + work_.path().string() + " && " + command + " 2> err").c_str(), "r");
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

pid_t Program::Start(std::vector<std::string> words) const {
  std::string line;
  for (const std::string& word : words) line += word + " ";
  const std::vector<std::string> limits = AmpleLimits(words.at(0), line);
  words.insert(words.begin() + 1, limits.begin(), limits.end());
  words.insert(words.begin(), "plumb");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, (work_ / "started").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t pid = -1;
  EXPECT_EQ(
      posix_spawn(&pid, LocatedProgram(PLUMB_PROGRAM).c_str(), &actions, nullptr, argv.data(), environ),
      0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program `plumb` from outside, in a folder of its own.

#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz::testing {

struct Outcome {
  int status = -1;   // the program's exit status; -1 if it was killed
  std::string out;   // stdout
  std::string last;  // its last line
};

std::string Slurp(const std::filesystem::path& path);

class Program : public ::testing::Test {
 protected:
  // Runs `arguments` as a shell reads them; stderr goes to the file "err". `before` is put before the
  // program's name: variables, `ulimit … &&`. Here and in Start, a command that has time limits of its
  // own is given ten minutes for each limit that is not among the arguments: on a slow machine the
  // defaults would make a hang of a sound case, and leave a finding half shrunk.
  Outcome Run(const std::string& arguments, const std::string& before = "") const;
  // Runs any command line in the same way.
  Outcome RunCommand(const std::string& command) const;
  // Starts the program without waiting for it; stdout goes to the file "started".
  pid_t Start(std::vector<std::string> words) const;
  std::string Err() const { return Slurp(work_ / "err"); }

  Workplace work_;
};

}  // namespace plumbline::fuzz::testing

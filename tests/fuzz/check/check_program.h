// SPDX-License-Identifier: Apache-2.0
//
// `plumb check` as tests run it.

#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "fuzz/base/json.h"
#include "tests/fuzz/check/dump_file.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz::testing {

class CheckProgram : public ::testing::Test {
 protected:
  // Runs `plumb check` in the test's folder; keeps stdout in out_, stderr in err_. Returns the status.
  int Run(const std::string& arguments) {
    const std::string command =
        "cd '" + work_.path().string() + "' && " + PLUMB_PROGRAM + " check " + arguments + " 2>err";
    std::FILE* const pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    out_.clear();
    for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      out_.append(buffer.data(), got);
    }
    const int status = pclose(pipe);
    std::ostringstream text;
    text << std::ifstream(work_ / "err").rdbuf();
    err_ = text.str();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Json LastLine() const {
    const std::string body = out_.substr(0, out_.size() - 1);
    std::string error;
    return Json::Parse(body.substr(body.rfind('\n') + 1), &error).value_or(Json());
  }
  // Returns a dump without outputs, for which a target is run.
  SafeTensors Inputs(int64_t n, int64_t v, int64_t h) {
    SafeTensors dump = FlatDump(n, v, h);
    for (const char* name : {"logprob", "entropy", "lse"}) dump.tensors.erase(name);
    return dump;
  }

  Workplace work_;
  std::string out_, err_;
};

}  // namespace plumbline::fuzz::testing

// SPDX-License-Identifier: Apache-2.0
//
// `plumb check` without its command line.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/base/exit_status.h"
#include "fuzz/check/session.h"
#include "fuzz/cli/console.h"

namespace plumbline::fuzz {

struct CheckCommand : CheckOptions {
  std::vector<std::filesystem::path> paths;  // dumps
  std::vector<std::string> targets;          // each is used by itself (CheckSession); none: ""
};
ExitStatus CommandCheck(const CheckCommand& command, const Console& console);

}  // namespace plumbline::fuzz

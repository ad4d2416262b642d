// SPDX-License-Identifier: Apache-2.0
//
// What is said of a command line that is not understood.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// Returns one line that names the argument and, where one is near, the command or option that was
// probably meant. `arguments` are those behind the program's name.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error,
                         const std::vector<std::string>& arguments);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Text for a terminal: tables of aligned columns, and words quoted for a shell.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

// Pads columns to their widest cell, with two spaces between them. Numbers are set flush right.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// The word as a POSIX shell reads it, quoted if it needs to be.
std::string ShellQuote(std::string_view word);

}  // namespace plumbline::fuzz

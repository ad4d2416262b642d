// SPDX-License-Identifier: Apache-2.0
//
// Text for a terminal: tables of aligned columns, and words quoted for a shell.

#ifndef PLUMBLINE_FUZZ_BASE_TABLE_H_
#define PLUMBLINE_FUZZ_BASE_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

// Columns are padded to their widest cell, two spaces lie between them; numbers are set flush right.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// The word as a POSIX shell reads it, in quotes where it needs them.
std::string ShellQuote(std::string_view word);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_TABLE_H_

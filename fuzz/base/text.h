// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of text that several parts of the harness print.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

// Formats like printf, into a string.
[[gnu::format(printf, 1, 2)]] std::string Text(const char* format, ...);

// Writes control characters as \xHH, so that text of unknown origin cannot send control codes to a
// terminal.
std::string Printable(std::string_view text);

// The text, or its beginning and its length: a text read from a file may be megabytes long.
std::string Abridged(std::string text);

// The words, with ", " between them.
std::string Joined(const std::vector<std::string>& words);

// A number as people read it: 9 digits, and nan without the sign that printf gives some.
std::string Number(double value);

// "1.5 ± 2.1e-07", or the value alone where no error is allowed.
std::string Allowed(double value, double bound);

// Names an element: "grad_weight[3, 0]", "logprob[2]", "loss".
std::string Place(std::string_view output, int64_t row, int64_t column);

}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of text that several parts of the harness print.

#ifndef PLUMBLINE_FUZZ_BASE_TEXT_H_
#define PLUMBLINE_FUZZ_BASE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Text(const char* format, ...);

// Control characters as \xHH: a stranger's bytes must not steer a terminal.
std::string Printable(std::string_view text);

// The text, or its beginning and how long it is: what a stranger's file holds may be megabytes.
std::string Abridged(std::string text);

// "grad_weight[3, 0]", "logprob[2]", "loss".
std::string Place(std::string_view output, int64_t row, int64_t column);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BASE_TEXT_H_

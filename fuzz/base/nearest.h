// SPDX-License-Identifier: Apache-2.0
//
// The name that somebody probably meant by a misspelt one.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plumbline::fuzz {

// Returns the name with the fewest letters inserted, left out, changed or exchanged with the next, the
// first of several, whatever their case; empty if more than a third of the letters of `text`, rounded
// up, would differ, or if it is longer than 64 bytes.
std::string Nearest(std::string_view text, std::span<const std::string> names);

// " Did you mean NAME?", where none is near up to three that contain the text, or nothing.
std::string DidYouMean(std::string_view text, std::span<const std::string> names);

}  // namespace plumbline::fuzz

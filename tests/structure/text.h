// SPDX-License-Identifier: Apache-2.0
//
// Reading of source text by eye, not by grammar: good enough for the rules of checker.h. String
// literals are not recognised; no source here holds a comment sign in one before a name that is looked
// for.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::structure {

enum class Syntax { kSlashes, kHash };  // `// …` and `/* … */`, or `# …` and Python's docstrings

// The file's bytes; empty if it cannot be read.
std::string ReadAll(const std::filesystem::path& path);

std::vector<std::string> Lines(const std::string& text);

// `text` without its comments. Line ends stay where a comment ends with its line.
std::string WithoutComments(const std::string& text, Syntax syntax);

// A run of comment lines without code or blank line between them, or one comment behind code.
struct Comment {
  size_t line = 0;   // of its first word, from 1
  std::string text;  // without comment signs, one space between words
};
std::vector<Comment> Comments(const std::string& text, Syntax syntax);

}  // namespace plumbline::structure

// SPDX-License-Identifier: Apache-2.0
#include "tests/structure/text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace plumbline::structure {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Where a comment begins in `line`, outside of string literals: at `block_open` or `to_end`.
size_t FindComment(std::string_view line, std::string_view block_open, std::string_view to_end) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.substr(i).starts_with(block_open) || line.substr(i).starts_with(to_end)) return i;
    if (line.substr(i).starts_with("'\"'")) {
      i += 2;
    } else if (line[i] == '"') {
      for (++i; i < line.size() && line[i] != '"'; ++i) i += line[i] == '\\' ? 1 : 0;
    }
  }
  return line.npos;
}

// What `line` says in a comment, or nothing. `inside` says that a `/*` or `"""` is open, and is
// updated.
struct Part {
  bool any = false;
  bool behind_code = false;
  std::string_view text;
};
Part CommentIn(std::string_view line, Syntax syntax, bool* inside) {
  const std::string_view block_open = syntax == Syntax::kSlashes ? "/*" : "\"\"\"";
  const std::string_view block_close = syntax == Syntax::kSlashes ? "*/" : "\"\"\"";
  const std::string_view to_end = syntax == Syntax::kSlashes ? "//" : "#";
  size_t start = 0;
  Part part{true, false, {}};
  if (!*inside) {
    start = FindComment(line, block_open, to_end);
    if (start == line.npos) return {};
    part.behind_code = !Trim(line.substr(0, start)).empty();
    *inside = line.substr(start).starts_with(block_open);
    start += *inside ? block_open.size() : to_end.size();
  }
  size_t length = line.npos;
  if (*inside) {
    const size_t end = line.find(block_close, start);
    *inside = end == line.npos;
    if (end != line.npos) length = end - start;
  }
  part.text = line.substr(start, length);
  part.text.remove_prefix(std::min(part.text.find_first_not_of(" \t/!*<#:"), part.text.size()));
  part.text = Trim(part.text);
  return part;
}

}  // namespace

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string WithoutComments(const std::string& text, Syntax syntax) {
  std::string code;
  const std::string_view to_end = syntax == Syntax::kSlashes ? "//" : "#";
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, to_end.size(), to_end) == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (syntax == Syntax::kSlashes && text.compare(i, 2, "/*") == 0) {
      i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    } else {
      code += text[i++];
    }
  }
  return code;
}

std::vector<Comment> Comments(const std::string& text, Syntax syntax) {
  std::vector<Comment> comments;
  bool inside = false;
  bool open = false;  // the last line's comment may go on
  size_t number = 0;
  for (const std::string& line : Lines(text)) {
    ++number;
    const Part part = CommentIn(line, syntax, &inside);
    if (!part.any || part.text.empty()) {
      open = false;
      continue;
    }
    if (!open || part.behind_code) comments.push_back({number, ""});
    std::string& whole = comments.back().text;
    whole += (whole.empty() ? "" : " ") + std::string(part.text);
    open = !part.behind_code;
  }
  return comments;
}

}  // namespace plumbline::structure

// SPDX-License-Identifier: Apache-2.0
//
// The structure of this tree, read off its includes: kernel <- oracle <- fuzz <- tests, bench.
//
// FindViolations is run on this tree, which must be clean, and on small synthetic trees that each break
// one rule, which must be reported: a checker that sees nothing would pass the first test alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kRooms = {"kernel", "oracle", "fuzz", "tests", "bench"};
constexpr size_t kMaxLines = 450;
constexpr std::string_view kUnlisted = "is in no CMakeLists.txt";

struct Scan {
  std::set<std::string> rooms_seen;
  size_t sources = 0;
  std::vector<std::string> violations;  // "path: what"
};

// What a library is allowed to cost: the slow headers have one includer each, and at most one test
// file.
struct SoleIncluder {
  std::string_view prefix;
  std::string_view file;  // empty: nobody
  std::string_view test_file = {};
};
constexpr std::array<SoleIncluder, 4> kSoleIncluders = {{
    {"boost/", "oracle/arbiter.cc", "tests/oracle/wide_objective.cc"},
    {"CLI/", "fuzz/cli/plumb.cc"},
    {"nlohmann/", "fuzz/base/json.cc"},
    {"fmt/", ""},
}};

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string RoomOf(std::string_view path) {
  const std::string_view head = path.substr(0, path.find('/'));
  const bool known = path.find('/') != path.npos && std::ranges::find(kRooms, head) != kRooms.end();
  return known ? std::string(head) : "";
}

// Blind to string literals, which is good enough here: no source holds a comment sign inside one before
// a name that is looked for.
std::string WithoutComments(const std::string& text) {
  std::string code;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    } else {
      code += text[i++];
    }
  }
  return code;
}

// "" where `room` may include `header` (both named from the root), else the reason why not.
std::string WhyForbidden(std::string_view room, const std::string& header) {
  const std::string other = RoomOf(header);
  if (room == "kernel" && other != "kernel") return "kernel knows no other room";
  if (room == "oracle") {
    if (other == "kernel" && header != "kernel/problem.h" && header != "kernel/dtype.h") {
      return "of kernel, oracle knows only problem.h and dtype.h, never an implementation";
    }
    if (other != "kernel" && other != "oracle") return "oracle knows only itself and kernel";
  }
  if (room == "fuzz" && (other == "tests" || other == "bench"))
    return "fuzz knows neither tests nor bench";
  if (room == "tests" && other == "bench") return "tests and bench do not know each other";
  if (room == "bench" && other == "tests") return "tests and bench do not know each other";
  return "";
}

void CheckIncludes(const fs::path& root, const std::string& name, const std::string& text, Scan* scan) {
  static const std::regex kInclude(R"re(^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">])re",
                                   std::regex::ECMAScript | std::regex::multiline);
  const std::string room = RoomOf(name);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kInclude); it != std::sregex_iterator();
       ++it) {
    const std::string header = (*it)[1];
    const std::string prefix = name + ": includes " + header + ": ";
    for (const SoleIncluder& sole : kSoleIncluders) {
      if (header.starts_with(sole.prefix) && name != sole.file && name != sole.test_file) {
        scan->violations.push_back(prefix + "only " +
                                   std::string(sole.file.empty() ? "nobody" : sole.file) + " may");
      }
    }
    if (!RoomOf(header).empty()) {
      const std::string why = WhyForbidden(room, header);
      if (!why.empty()) scan->violations.push_back(prefix + why);
    } else if (!name.starts_with("tests/consumer/") &&  // a project of its own, with a root of its own
               (fs::exists((root / name).parent_path() / header) || fs::exists(root / room / header))) {
      // Else `#include "../kernel/host/exp.h"` would hide which room it borrows from.
      scan->violations.push_back(prefix + "not spelled from the root");
    }
  }
}

void CheckSource(const fs::path& root, const std::string& name, const std::string& text, Scan* scan) {
  ++scan->sources;
  scan->rooms_seen.insert(RoomOf(name));
  CheckIncludes(root, name, text, scan);
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  if (lines >= kMaxLines) {
    scan->violations.push_back(name + ": " + std::to_string(lines) +
                               " lines: two concepts in one file");
  }
  // The oracle decodes bits by itself: sharing the operator's conversions would share their mistakes.
  static const std::regex kConversion(R"(\b(ToFloat|ToBFloat16|ToFloat16)\b)");
  if (RoomOf(name) == "oracle" && std::regex_search(WithoutComments(text), kConversion)) {
    scan->violations.push_back(name + ": uses a conversion of kernel/dtype.h");
  }
}

// A source that no CMakeLists.txt lists is not built; a test that is not built cannot fail.
void CheckListed(const fs::path& root, const std::string& name, Scan* scan) {
  fs::path folder = fs::path(name).parent_path();
  while (!folder.empty() && !fs::exists(root / folder / "CMakeLists.txt"))
    folder = folder.parent_path();
  const std::string stem =
      fs::path(name).lexically_relative(folder).replace_extension().generic_string();
  const std::regex listed("(^|[ \t\n(])" + stem + "(\\.cc)?[ \t\n)]");
  if (!std::regex_search(ReadAll(root / folder / "CMakeLists.txt"), listed)) {
    scan->violations.push_back(name + ": " + std::string(kUnlisted));
  }
}

void CheckLicence(const std::string& name, const std::string& text, Scan* scan) {
  // A script's first line is its interpreter's.
  const size_t start = text.starts_with("#!") ? std::min(text.find('\n'), text.size() - 1) + 1 : 0;
  const std::string line = text.substr(start, text.find('\n', start) - start);
  if (line.find("SPDX-License-Identifier: Apache-2.0") == line.npos) {
    scan->violations.push_back(name + ": no SPDX line first");
  }
}

void CheckBuildFile(const std::string& name, const std::string& text, Scan* scan) {
  // Each makes results depend on the compiler's mood or on the machine that built them.
  for (const char* flag : {"fast-math", "-Ofast", "march=native", "mcpu=native", "unsafe-math"}) {
    if (text.find(flag) != text.npos) scan->violations.push_back(name + ": mentions " + flag);
  }
}

Scan FindViolations(const fs::path& root) {
  Scan scan;
  std::vector<std::string> names;
  for (const char* file : {"CMakeLists.txt", "CMakePresets.json"}) {
    if (fs::exists(root / file)) names.emplace_back(file);
  }
  for (const std::string_view room : kRooms) {
    if (!fs::exists(root / room)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      if (entry.is_regular_file())
        names.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  std::ranges::sort(names);
  static const std::set<std::string> kSources = {".h", ".cc", ".cu", ".cuh", ".c", ".cpp"};
  for (const std::string& name : names) {
    const fs::path path(name);
    const std::string extension = path.extension();
    const bool source = kSources.contains(extension);
    const bool build = path.filename() == "CMakeLists.txt" || extension == ".cmake" ||
                       extension == ".sh" || path.filename() == "CMakePresets.json" ||
                       path.filename() == "run";
    if (!source && !build && extension != ".py") continue;
    const std::string text = ReadAll(root / path);
    if (source) CheckSource(root, name, text, &scan);
    if (extension == ".cc") CheckListed(root, name, &scan);
    if (build) CheckBuildFile(name, text, &scan);
    if (extension != ".json") CheckLicence(name, text, &scan);
  }
  return scan;
}

// Fails on any include against the arrows, and on every other rule above.
TEST(Structure, OfThisTreeIsClean) {
  EXPECT_THAT(FindViolations(PLUMBLINE_SOURCE_DIR).violations, testing::IsEmpty());
}

// Fails if the scan no longer reaches the sources (a moved folder, an extension forgotten), which would
// leave the test above with nothing to look at.
TEST(Structure, ScanReachesEveryRoom) {
  const Scan scan = FindViolations(PLUMBLINE_SOURCE_DIR);
  EXPECT_THAT(scan.rooms_seen, testing::UnorderedElementsAreArray(kRooms));
  EXPECT_GE(scan.sources, 60u);
}

// A clean tree of one file a room, to which each control adds one offence.
class SyntheticTree {
 public:
  SyntheticTree() {
    std::string pattern = (fs::temp_directory_path() / "plumbline-structure-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw fs::filesystem_error("mkdtemp", pattern, {});
    root_ = pattern;
    Write("kernel/problem.h", Source(""));
    Write("kernel/host/exp.h", Source("#include \"kernel/problem.h\"\n"));
    Write("oracle/budget/row.h", Source("#include \"kernel/problem.h\"\n"));
    Write("oracle/arbiter.cc", Source("#include <boost/x.hpp>\n// not ToFloat\n"));
    Write("fuzz/x.cc", Source("#include \"oracle/budget/row.h\"\n#include \"kernel/host/exp.h\"\n"));
    Write("tests/x_test.cc", Source("#include \"fuzz/x.h\"\n"));
    Write("bench/x.cc", Source("#include <vector>\n#include \"kernel/problem.h\"\n"));
  }
  ~SyntheticTree() { fs::remove_all(root_); }
  SyntheticTree(const SyntheticTree&) = delete;
  SyntheticTree& operator=(const SyntheticTree&) = delete;

  static std::string Source(const std::string& body) {
    return "// SPDX-License-Identifier: Apache-2.0\n" + body;
  }
  // A .cc is also entered into its room's CMakeLists.txt, unless it is to be missing there.
  void Write(const std::string& name, const std::string& text, bool listed = true) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
    if (!listed || fs::path(name).extension() != ".cc") return;
    const std::string room = RoomOf(name);
    sources_[room] += " " + name.substr(room.size() + 1);
    std::ofstream(root_ / room / "CMakeLists.txt")
        << "# SPDX-License-Identifier: Apache-2.0\nadd_library(x" << sources_[room] << ")\n";
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
  std::map<std::string, std::string> sources_;
};

struct Offence {
  std::string what;
  std::string file;
  std::string text;
  std::string report;  // part of the violation that must be the only one
};

class StructureControl : public testing::TestWithParam<Offence> {};

// Each fails if its rule is removed from the checker, or if it fires on the clean part of the tree.
TEST_P(StructureControl, IsReportedAlone) {
  SyntheticTree tree;
  ASSERT_THAT(FindViolations(tree.root()).violations, testing::IsEmpty());
  tree.Write(GetParam().file, GetParam().text, GetParam().report != kUnlisted);
  EXPECT_THAT(FindViolations(tree.root()).violations,
              testing::ElementsAre(testing::AllOf(testing::HasSubstr(GetParam().file),
                                                  testing::HasSubstr(GetParam().report))));
}

std::vector<Offence> Offences() {
  const auto include = [](const std::string& file, const std::string& header,
                          const std::string& report) {
    return Offence{"", file, SyntheticTree::Source("  #  include " + header + "\n"), report};
  };
  std::vector<Offence> all = {
      include("kernel/a.h", "\"oracle/budget/row.h\"", "kernel knows no other room"),
      include("kernel/host/a.cu", "<tests/a.h>", "kernel knows no other room"),
      include("oracle/a.cc", "\"kernel/host/exp.h\"", "never an implementation"),
      include("oracle/b.cc", "\"kernel/linear_cross_entropy.h\"", "never an implementation"),
      include("oracle/c.h", "\"fuzz/recipe/recipe.h\"", "oracle knows only itself and kernel"),
      include("fuzz/a.cc", "\"tests/a.h\"", "fuzz knows neither"),
      include("fuzz/targets/b.cc", "\"bench/a.h\"", "fuzz knows neither"),
      include("tests/a.cc", "\"bench/a.h\"", "do not know each other"),
      include("bench/a.cc", "\"tests/a.h\"", "do not know each other"),
      include("oracle/d.cc", "\"../kernel/host/exp.h\"", "not spelled from the root"),
      include("oracle/e.cc", "\"row.h\"", "not spelled from the root"),
      include("kernel/host/f.cc", "\"problem.h\"", "not spelled from the root"),
      include("oracle/g.cc", "<boost/multiprecision/cpp_bin_float.hpp>", "only oracle/arbiter.cc may"),
      include("fuzz/h.cc", "<CLI/CLI.hpp>", "only fuzz/cli/plumb.cc may"),
      include("fuzz/i.h", "<nlohmann/json.hpp>", "only fuzz/base/json.cc may"),
      include("tests/j.cc", "<fmt/format.h>", "only nobody may"),
  };
  all.push_back(
      {"", "oracle/k.cc", SyntheticTree::Source("float f = kernel::ToFloat(b);\n"), "conversion"});
  all.push_back({"", "fuzz/l.cc", "\n// SPDX-License-Identifier: Apache-2.0\n", "no SPDX"});
  all.push_back({"", "fuzz/run", "#!/bin/bash\necho\n", "no SPDX"});
  all.push_back(
      {"", "tests/m.cc", SyntheticTree::Source(std::string(kMaxLines, '\n')), "two concepts"});
  for (const char* file : {"kernel/n.cc", "oracle/sub/iter.cc", "tests/x_tes.cc"}) {
    all.push_back({"", file, SyntheticTree::Source(""), std::string(kUnlisted)});
  }
  for (const std::string flag : {"-ffast-math", "-march=native", "-Ofast"}) {
    all.push_back({"", "kernel/CMakeLists.txt",
                   "# SPDX-License-Identifier: Apache-2.0\nadd_compile_options(" + flag + ")\n",
                   "mentions"});
  }
  for (Offence& offence : all) {
    offence.what = offence.file + "_" + offence.report;
    std::erase_if(offence.what,
                  [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  }
  for (size_t i = 0; i < all.size(); ++i) all[i].what += "_" + std::to_string(i);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryRule, StructureControl, testing::ValuesIn(Offences()),
                         [](const auto& offence) { return offence.param.what; });

}  // namespace
}  // namespace plumbline

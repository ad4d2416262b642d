// SPDX-License-Identifier: Apache-2.0
//
// Small trees that each break one rule of checker.h, which must be reported, and alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/structure/checker.h"

namespace plumbline::structure {
namespace {

namespace fs = std::filesystem;

std::string Source(const std::string& body) {
  return "// SPDX-License-Identifier: Apache-2.0\n" + body;
}

std::string Script(const std::string& body) { return "# SPDX-License-Identifier: Apache-2.0\n" + body; }

// A page with a table of rooms.
std::string Page(const std::vector<std::string>& rows) {
  std::string text = "# A page\n\n| room | may include | holds |\n|---|---|---|\n";
  for (const std::string& row : rows) text += "| " + row + " | something |\n";
  return text;
}

// A clean tree of a few files a room, to which each control adds one offence.
class SyntheticTree {
 public:
  SyntheticTree() {
    std::string pattern = (fs::temp_directory_path() / "plumbline-structure-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw fs::filesystem_error("mkdtemp", pattern, {});
    root_ = pattern;
    Write("kernel/problem.h", Source(""));
    Write("kernel/entry.cc", Source("#include \"kernel/host/exp.h\"\n"));
    Write("kernel/host/exp.h", Source("#include \"kernel/problem.h\"\n"));
    Write("kernel/cuda/pass.h", Source(""));
    Write("kernel/cuda/stages/pack.h", Source(""));
    Write("kernel/README.md", Page({"`.` | –", "`entry.cc` | `host`", "`host` | `.`", "`cuda` | –"}));
    Write("kernel/cuda/README.md", Page({"`.` | –", "`stages` | –"}));
    Write("oracle/budget/row.h", Source("#include \"kernel/problem.h\"\n"));
    Write("oracle/arbiter.cc", Source("#include <boost/x.hpp>\n// not ToFloat\n"));
    Write("oracle/README.md", Page({"`.` | –", "`budget` | –"}));
    Write("fuzz/target_abi.h", Source(""));
    Write("fuzz/private.h", Source(""));
    Write("fuzz/base/x.cc",
          Source("#include \"oracle/budget/row.h\"\n#include \"kernel/host/exp.h\"\n"));
    Write("fuzz/base/part/y.h", Source("#include \"fuzz/base/x.h\"\n"));
    Write("fuzz/base/README.md", "one page\n");
    Write("fuzz/base/inner/z.h", Source("#include \"fuzz/base/x.h\"\n"));
    Write("fuzz/cli/c.cc", Source("#include \"fuzz/base/inner/z.h\"\n#include "
                                  "\"fuzz/target_abi.h\"\n#include <CLI/CLI.hpp>\n"));
    Write("fuzz/cli/README.md", "one page\n");
    Write("fuzz/README.md",
          Page({"`.` | –", "`base/` | –", "`base/inner` | `base`", "`cli` | `base/inner`"}));
    Write("tests/x_test.cc", Source("#include \"fuzz/x.h\"\n#include \"bench/x.h\"\nconst char* used = "
                                    "\"plugins/used.c\";\n// \"unused.c\"\n"));
    Write("tests/plugins/used.c", Source(""));
    Write("tests/plugins/stored.c", Source(""));
    Write("tests/README.md", "`old.so` was built of `plugins/stored.c`\n");
    Write("bench/x.cc", Source("#include <vector>\n#include \"kernel/problem.h\"\n"));
  }
  ~SyntheticTree() { fs::remove_all(root_); }
  SyntheticTree(const SyntheticTree&) = delete;
  SyntheticTree& operator=(const SyntheticTree&) = delete;

  // What is built is also entered into its room's CMakeLists.txt, unless it is to be missing there.
  void Write(const std::string& name, const std::string& text, bool listed = true) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
    const std::string extension = fs::path(name).extension();
    if (extension != ".cc" && extension != ".cu") return;
    const std::string room = TopRoomOf(name);
    sources_[room] += (listed ? "\n  " : "\n  # ") + name.substr(room.size() + 1);
    std::ofstream(root_ / room / "CMakeLists.txt")
        << Script("add_library(x" + sources_[room] + "\n)\n");
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
  std::map<std::string, std::string> sources_;
};

struct Offence {
  std::string file;
  std::string text;
  std::string report;  // part of the violation that must be the only one
  std::string what = "";
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

std::vector<Offence> IncludeOffences() {
  const auto include = [](const std::string& file, const std::string& header,
                          const std::string& report) {
    return Offence{file, Source("  #  include " + header + "\n"), report};
  };
  return {
      include("kernel/a.h", "\"oracle/budget/row.h\"", "kernel knows no other room"),
      include("kernel/host/a.cu", "<tests/a.h>", "kernel knows no other room"),
      include("oracle/a.cc", "\"kernel/host/exp.h\"", "never an implementation"),
      include("oracle/b.cc", "\"kernel/linear_cross_entropy.h\"", "never an implementation"),
      include("oracle/c.h", "\"fuzz/recipe/recipe.h\"", "oracle knows only itself and kernel"),
      include("fuzz/a.cc", "\"tests/a.h\"", "fuzz knows neither"),
      include("fuzz/base/b.cc", "\"bench/a.h\"", "fuzz knows neither"),
      include("bench/a.cc", "\"tests/a.h\"", "bench does not know tests"),
      include("oracle/d.cc", "\"../kernel/host/exp.h\"", "not spelled from the root"),
      include("oracle/e.cc", "\"budget/row.h\"", "not spelled from the root"),
      include("oracle/p.cc", "\"./kernel/host/exp.h\"", "not spelled from the root"),
      include("oracle/q.cc", "\"oracle/../kernel/host/exp.h\"", "not spelled from the root"),
      include("oracle/r.inc", "\"fuzz/recipe.h\"", "oracle knows only itself and kernel"),
      include("kernel/host/f.cc", "\"problem.h\"", "not spelled from the root"),
      include("oracle/g.cc", "<boost/multiprecision/cpp_bin_float.hpp>", "only oracle/arbiter.cc may"),
      include("fuzz/base/h.cc", "<CLI/CLI.hpp>", "only fuzz/cli may"),
      include("fuzz/i.h", "<nlohmann/json.hpp>", "only fuzz/base/json.cc may"),
      include("tests/j.cc", "<fmt/format.h>", "only nobody may"),
      include("fuzz/cli/k.h", "\"fuzz/base/x.h\"", "does not let cli include base"),
      include("fuzz/cli/deep/l.h", "\"fuzz/private.h\"", "does not let cli include ."),
      include("fuzz/base/part/m.h", "\"fuzz/cli/c.h\"", "does not let base include cli"),
      include("kernel/n.h", "\"kernel/host/exp.h\"", "does not let . include host"),
      include("kernel/host/o.h", "\"kernel/cuda/pass.h\"", "does not let host include cuda"),
      include("kernel/cuda/p.h", "\"kernel/cuda/stages/pack.h\"", "does not let . include stages"),
      include("oracle/q.h", "\"oracle/budget/row.h\"", "does not let . include budget"),
  };
}

std::vector<Offence> TableOffences() {
  return {
      {"fuzz/README.md", "no table\n", "no table of rooms"},
      {"oracle/README.md", "| room | holds |\n|---|---|\n| `budget` | x |\n", "no table of rooms"},
      {"kernel/README.md", "", "no table of rooms"},
      {"kernel/cuda/README.md", Page({"`.` | –", "`stages` | –", "`gone` | –"}),
       "the room gone has no source"},
      {"oracle/README.md", Page({"`.` | –", "`budget` | –", "`budget` | –"}), "two rows for budget"},
      {"oracle/README.md", Page({"`.` | –", "`budget` | –", "budget | –"}), "cannot read the row"},
      {"oracle/README.md", Page({"`.` | –", "`budget` | –", "`budget` | everything"}),
       "cannot read the row"},
      {"oracle/README.md", Page({"`.` | –", "`budget` | `.`"}),
       "budget may include ., and no file does"},
      {"fuzz/new/a.h", Source(""), "in no room of fuzz/README.md"},
      {"kernel/cuda/new/deep/a.h", Source(""), "in no room of kernel/cuda/README.md"},
      {"fuzz/base/README.md", std::string(kMaxReadmeLines + 1, '\n'), "more than a room's"},
  };
}

std::vector<Offence> TextOffences() {
  std::vector<Offence> all = {
      {"oracle/k.cc", Source("float f = kernel::ToFloat(b);\n"), "conversion"},
      {"fuzz/l.cc", "\n// SPDX-License-Identifier: Apache-2.0\n", "no SPDX"},
      {"fuzz/run", "#!/bin/bash\necho\n", "no SPDX"},
      {"bench/tool", "#!/usr/bin/env python3\nprint()\n", "no SPDX"},
      {"oracle/r.h", Source("int a;\n\n// Of two kinds.\n"), "begins with \"Of\""},
      {"oracle/s.h", Source("int a;  // Of two kinds.\n"), "begins with \"Of\""},
      {"kernel/cuda/t.cuh", Source("// It is one.\n// Of two it is the first.\n"),
       "begins with \"Of\""},
      {"tests/u.h", Source("\n/* Of two\n * kinds. */\n"), "begins with \"Of\""},
      {"bench/v.py", Script("def f():\n  \"\"\"Of two kinds.\"\"\"\n"), "begins with \"Of\""},
      {"bench/w.sh", Script("f  # Of two kinds\n"), "begins with \"Of\""},
      {"tests/x.cmake", Script("\n# It is one. Of two\n"), "begins with \"Of\""},
  };
  for (const char* file : {"tests/m.cc", "fuzz/long.md", "bench/long.py", "corpus/README.md"}) {
    all.push_back({file, Source(std::string(kMaxLines, '\n')), "two concepts"});
    if (std::string(file).ends_with(".py")) all.back().text = Script(std::string(kMaxLines, '\n'));
  }
  for (const char* file : {"kernel/n.cc", "oracle/iter.cc", "oracle/budget/iter.cc", "tests/x_tes.cc",
                           "kernel/cuda/n.cu", "tests/plugins/unused.c", "tests/y_test.py"}) {
    const bool python = std::string(file).ends_with(".py");
    all.push_back({file, python ? Script("") : Source(""), std::string(kUnlisted)});
  }
  for (const std::string flag : {"-ffast-math", "-march=native", "-Ofast"}) {
    all.push_back({"kernel/flags.cmake", Script("add_compile_options(" + flag + ")\n"), "mentions"});
  }
  return all;
}

std::vector<Offence> Offences() {
  std::vector<Offence> all = IncludeOffences();
  for (const std::vector<Offence>& more : {TableOffences(), TextOffences()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].what = all[i].file + "_" + all[i].report;
    std::erase_if(all[i].what, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
    all[i].what += "_" + std::to_string(i);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryRule, StructureControl, testing::ValuesIn(Offences()),
                         [](const auto& offence) { return offence.param.what; });

// Fails if a table may go in a circle. Its second violation is the arrow that closes the circle, which
// no file uses.
TEST(StructureCircle, IsReported) {
  SyntheticTree tree;
  tree.Write("fuzz/README.md",
             Page({"`.` | –", "`base` | `cli`", "`base/inner` | `base`", "`cli` | `base/inner`"}));
  EXPECT_THAT(FindViolations(tree.root()).violations,
              testing::UnorderedElementsAre(
                  testing::HasSubstr("base may include cli, and no file does"),
                  testing::HasSubstr("the rooms go in a circle: base cli base/inner")));
}

// Fails if a room may include what is no room. The row is reported, and the arrow that nothing uses.
TEST(StructureUnknownRoom, IsReported) {
  SyntheticTree tree;
  tree.Write("oracle/README.md", Page({"`.` | –", "`budget` | `numeric`"}));
  EXPECT_THAT(FindViolations(tree.root()).violations,
              testing::UnorderedElementsAre(testing::HasSubstr("numeric, which is no other room"),
                                            testing::HasSubstr("numeric, and no file does")));
}

// Fails if a room of fuzz/ may go without a page. Its source is in a room, but the page is missing.
TEST(StructureReadme, MayNotBeMissing) {
  SyntheticTree tree;
  fs::remove(tree.root() / "fuzz/cli/README.md");
  EXPECT_THAT(FindViolations(tree.root()).violations,
              testing::ElementsAre(testing::HasSubstr("fuzz/cli/README.md: a room has none")));
}

// Fails if a loop over names hides the sources that it lists.
TEST(StructureForeach, ListsWhatItExpandsTo) {
  SyntheticTree tree;
  tree.Write("bench/sub/one.cc", Source(""), false);
  tree.Write("bench/sub/two.cc", Source(""), false);
  std::ofstream(tree.root() / "bench/more.cmake")
      << Script("foreach(name one three)\n  add_executable(${name} sub/${name}.cc)\nendforeach()\n");
  EXPECT_THAT(FindViolations(tree.root()).violations,
              testing::ElementsAre(testing::StartsWith("bench/sub/two.cc")));
}

}  // namespace
}  // namespace plumbline::structure

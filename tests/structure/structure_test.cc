// SPDX-License-Identifier: Apache-2.0
//
// The rules of checker.h on this tree, which must be clean. controls_test.cc breaks each rule in a
// small tree: a checker that sees nothing would pass the tests of this file alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/structure/checker.h"

namespace plumbline::structure {
namespace {

// Fails on any include against the arrows, and on every other rule of checker.h.
TEST(Structure, OfThisTreeIsClean) {
  std::string violations;
  for (const std::string& violation : FindViolations(PLUMBLINE_SOURCE_DIR).violations) {
    violations += "\n" + violation;
  }
  EXPECT_EQ(violations, "");
}

// What git keeps of this tree; empty outside a checkout.
std::vector<std::string> TrackedFiles() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen("git -C '" PLUMBLINE_SOURCE_DIR "' ls-files 2>/dev/null", "r"), pclose);
  std::string all;
  for (int c = pipe ? fgetc(pipe.get()) : EOF; c != EOF; c = fgetc(pipe.get())) {
    all += static_cast<char>(c);
  }
  std::vector<std::string> names;
  for (size_t start = 0, end = 0; (end = all.find('\n', start)) != all.npos; start = end + 1) {
    names.push_back(all.substr(start, end - start));
  }
  return names;
}

bool EndsWithAny(const std::string& name, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings, [&](const std::string& end) { return name.ends_with(end); });
}

// Fails if the scan no longer reaches the sources, scripts or pages (a moved folder, an extension
// forgotten), which would leave the test above with nothing to look at. One in twenty may differ: files
// that are not committed yet.
TEST(Structure, ScanReachesWhatGitKeeps) {
  const Scan scan = FindViolations(PLUMBLINE_SOURCE_DIR);
  EXPECT_THAT(scan.rooms_seen, testing::UnorderedElementsAreArray(kTopRooms));
  const std::vector<std::string> tracked = TrackedFiles();
  if (tracked.empty()) GTEST_SKIP() << "not a git checkout: nothing to compare the scan with";
  const auto sources = std::ranges::count_if(tracked, [](const std::string& name) {
    return EndsWithAny(name, {".h", ".cc", ".cu", ".cuh", ".c", ".cpp"});
  });
  const auto data = std::ranges::count_if(tracked, [](const std::string& name) {
    return !name.ends_with("CMakePresets.json") &&
           EndsWithAny(name, {".json", ".safetensors", ".dict", ".cff", "LICENSE", ".clang-format",
                              ".clang-tidy", ".gitattributes", ".gitignore"});
  });
  const auto near = [](size_t found, ptrdiff_t kept) {
    return testing::Matches(testing::AllOf(testing::Ge(0.95 * static_cast<double>(kept)),
                                           testing::Le(1.05 * static_cast<double>(kept))))(
        static_cast<double>(found));
  };
  EXPECT_TRUE(near(scan.sources.size(), sources)) << scan.sources.size() << " of " << sources;
  const ptrdiff_t text = std::ssize(tracked) - data;
  EXPECT_TRUE(near(scan.files.size(), text)) << scan.files.size() << " of " << text;
}

}  // namespace
}  // namespace plumbline::structure

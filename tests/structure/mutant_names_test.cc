// SPDX-License-Identifier: Apache-2.0
//
// The operator without its mutants: kernel/ does not know the defects that the harness can give it
// (fuzz/builtin/mutants/table.txt). What is compiled is looked at in
// tests/fuzz/builtin/mutant_hooks_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/builtin/mutants/table.h"
#include "tests/structure/checker.h"
#include "tests/structure/text.h"

namespace plumbline::structure {
namespace {

// "tail-unmasked" as the name of a constant: "kTailUnmasked".
std::string AsConstant(std::string_view name) {
  std::string constant = "k";
  bool upper = true;
  for (const char c : name) {
    if (c != '-') constant += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '-';
  }
  return constant;
}

// The words of the table that a text holds.
std::vector<std::string> MutantWords(std::string_view text) {
  std::vector<std::string> words = {"Defect", "defects", "mutant", "Mutant", "planted", "Planted"};
  for (const fuzz::MutantRow& mutant : fuzz::kMutants) {
    words.emplace_back(mutant.name);
    words.push_back(AsConstant(mutant.name));
  }
  std::vector<std::string> found;
  for (const std::string& word : words) {
    if (text.find(word) != text.npos) found.push_back(word);
  }
  return found;
}

// Fails if a source, script or page of kernel/ names a mutant, in either spelling, or speaks of them.
TEST(MutantNames, AreNotInKernel) {
  size_t seen = 0;
  for (const std::string& file : FindViolations(PLUMBLINE_SOURCE_DIR).files) {
    if (TopRoomOf(file) != "kernel") continue;
    ++seen;
    EXPECT_THAT(MutantWords(ReadAll(std::string(PLUMBLINE_SOURCE_DIR) + "/" + file)),
                testing::IsEmpty())
        << file;
  }
  EXPECT_GE(seen, 60u);
}

// Fails if the test above sees nothing.
TEST(MutantNames, AreSeen) {
  EXPECT_THAT(MutantWords("if (hooks.Is(\"tail-unmasked\")) return;"),
              testing::ElementsAre("tail-unmasked"));
  EXPECT_THAT(MutantWords("case kTailUnmasked:"), testing::ElementsAre("kTailUnmasked"));
  EXPECT_THAT(MutantWords("a planted one"), testing::ElementsAre("planted"));
}

// The functions of a policy of hooks that a header declares as static members.
std::set<std::string> HookPoints(const std::string& header) {
  static const std::regex kPoint(R"(\bstatic [\w:<>]+ (\w+)\()");
  std::set<std::string> points;
  const std::string text = WithoutComments(header, Syntax::kSlashes);
  for (std::sregex_iterator at(text.begin(), text.end(), kPoint), end; at != end; ++at) {
    points.insert((*at)[1]);
  }
  return points;
}

// The hooks that rows of the host name, or those of CUDA.
std::set<std::string> NamedHooks(bool on_host) {
  std::set<std::string> named;
  for (const fuzz::MutantRow& mutant : fuzz::kMutants) {
    if ((mutant.path == fuzz::MutantPath::kHost) != on_host) continue;
    std::istringstream hooks{std::string(mutant.hook)};
    for (std::string hook; std::getline(hooks >> std::ws, hook, ',');) named.insert(hook);
  }
  return named;
}

// Fails if a row names a hook point that the operator does not have, or if the operator has one that no
// mutant needs.
TEST(MutantNames, HooksAreThoseOfTheTable) {
  std::set<std::string> points = HookPoints(ReadAll(PLUMBLINE_SOURCE_DIR "/kernel/host/hooks.h"));
  points.insert("Arguments");  // of the call, before the operator sees them
  EXPECT_EQ(NamedHooks(true), points);

  points = HookPoints(ReadAll(PLUMBLINE_SOURCE_DIR "/kernel/cuda/support/hooks.cuh"));
  points.insert("Arguments");
  for (const char* function :
       {"forward", "d_logits", "grad_hidden", "grad_weight", "grad_weight_of_block", "both_gradients",
        "kept_d_logits", "finish_grad_hidden"})  // of kernel/cuda/stages/path.h
    points.insert(std::string("Path::") + function);
  EXPECT_EQ(NamedHooks(false), points);
}

}  // namespace
}  // namespace plumbline::structure

// SPDX-License-Identifier: Apache-2.0
//
// One-line changes of fuzz/examples/plugin.c, each of another cause.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "tests/fuzz/support/program.h"

namespace plumbline::fuzz {
namespace {

using testing::Outcome;
using testing::Slurp;

struct Change {
  const char *name, *from, *to;
};

constexpr Change kChanges[] = {
    {"DroppedTail", "v = p->weight->shape[0];",
     "v = p->weight->shape[0] - (p->weight->shape[0] % 8 == 1);"},
    {"MaxFromZero", "float m = -INFINITY,", "float m = 0,"},
    {"LabelOffByOne", "const int64_t label = ((int64_t*)Data(p->labels))[i];",
     "const int64_t label = (((int64_t*)Data(p->labels))[i] + 1) % v;"},
    {"EntropyNotDivided", "entropy[i] = l + q / s;", "entropy[i] = l + q;"},
    {"LabelMissing", "g * ((float)(j == label) - prob)", "g * -prob"},
    {"NotAccumulated", "grad_hidden[i * h + d] += dz", "grad_hidden[i * h + d] = dz"},
    {"EntropyGradientSign", "- k * prob", "+ k * prob"},
    {"FirstGradientForAll", "grad_logprob ? grad_logprob[i]", "grad_logprob ? grad_logprob[0]"},
    {"WriteBeyond", "if (lse) lse[i] = m + l;", "if (lse) lse[i + (n % 16 == 3)] = m + l;"},
    {"Abort", "if (stream || !z)", "if (h % 32 == 5) abort();\n  if (stream || !z)"},
    {"DepthTail", "d < h; ++d) z[j]", "d < (h > 8 ? h / 8 * 8 : h); ++d) z[j]"},
    {"OnesWhereNoneIsGiven", "grad_logprob ? grad_logprob[i] : 0, k",
     "grad_logprob ? grad_logprob[i] : 1, k"},
    {"NotZeroed", "if (grad_weight) memset(grad_weight, 0, (size_t)(v * h) * sizeof(float));", ""},
};

class OneCause : public testing::Program, public ::testing::WithParamInterface<Change> {
 protected:
  void Hunt(const std::string& budget);
};
class SlowOneCause : public OneCause {};

// The finding's share of the terminal: all lines but those of the summary's tables and totals.
int64_t LinesOfFindings(const std::string& out, std::string* first) {
  std::istringstream lines(out);
  int64_t count = 0;
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("target ")) {
    // A line of progress comes every ten seconds: it is no line of a finding.
    if (line.starts_with("search ") || line.starts_with("level one ")) continue;
    if (++count == 2) *first = line;
  }
  return count;
}

// Fails if one cause makes two findings, if a signature that a case showed is in none, if its text is
// long, or if that does not begin with the effect.
void OneCause::Hunt(const std::string& budget) {
  const Change& change = GetParam();
  std::string source = Slurp(PLUMBLINE_SOURCE_DIR "/fuzz/examples/plugin.c");
  const size_t at = source.find(change.from);
  ASSERT_NE(at, std::string::npos) << change.from;
  source.replace(at, std::string(change.from).size(), change.to);
  std::ofstream(work_ / "changed.c") << source;
  const std::string compile = "cc -O1 -shared -fPIC -I" PLUMBLINE_SOURCE_DIR " " +
                              (work_ / "changed.c").string() + " -o " +
                              (work_ / "changed.so").string() + " -lm";
  ASSERT_EQ(std::system(compile.c_str()), 0);
  const Outcome o = Run("fuzz --target plugin:./changed.so --budget " + budget +
                        " --seed 1 --jobs 1 --shrink-tries 2000 "
                        "--out o");
  EXPECT_EQ(o.status, 1) << o.out << Err();
  std::string error, first;
  const auto summary = Json::Parse(Slurp(work_ / "o" / "summary.json"), &error);
  ASSERT_TRUE(summary) << error;
  EXPECT_EQ(summary->Find("sightings")->as_array()->size(), 1U) << o.out;
  EXPECT_LE(LinesOfFindings(o.out, &first), 12) << o.out;
  EXPECT_THAT(first, ::testing::StartsWith("finding 1: "));
  // Every signature of the totals is the finding's or one of its parts.
  const Json& ranked = summary->Find("ranking")->as_array()->at(0);
  std::string all = *ranked.Find("signature")->as_string() + " ";
  for (const Json& part : *ranked.Find("parts")->as_array()) all += *part.as_string() + " ";
  const Json& totals = *summary->Find("targets")->as_array()->at(0).Find("signatures");
  for (const auto& [signature, count] : *totals.as_object()) {
    EXPECT_NE(all.find(signature + " "), std::string::npos) << signature << " is in none: " << all;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Change>& each) { return each.param.name; }

TEST_P(OneCause, IsOneFinding) { Hunt("150cases"); }
INSTANTIATE_TEST_SUITE_P(Changes, OneCause, ::testing::ValuesIn(kChanges), NameOf);

// The more cases, the more signatures.
TEST_P(SlowOneCause, IsOneFinding) { Hunt("1000cases"); }
INSTANTIATE_TEST_SUITE_P(Changes, SlowOneCause, ::testing::ValuesIn(kChanges), NameOf);

}  // namespace
}  // namespace plumbline::fuzz

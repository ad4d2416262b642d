// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target/contracts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/examine/placement.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/catalogue.h"
#include "oracle/budget/arithmetic.h"
#include "oracle/judge/judge.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

Description Described(const std::string& contract) {
  std::string error;
  const auto description = ParseDescription(R"({"name": "x", "contract": )" + contract + "}", &error);
  EXPECT_TRUE(description) << error;
  return description.value_or(Description());
}

// Fails if a declared key is overruled by what is assumed, or if a silent target is not assumed to be
// anything.
TEST(Assumptions, HoldOfAbsentKeysAlone) {
  const auto assumed = [](const std::string& contract) { return Described(contract).assumptions; };
  EXPECT_EQ(assumed("{}"), (Assumptions{true, true}));
  EXPECT_EQ(assumed(R"({"accumulate": "fp32", "shift": "exact_max"})"), (Assumptions{true, true}));
  for (const char* key :
       {R"("scale": "before")", R"("scale_roundings": 3)", R"("scale_exact_powers": false)"}) {
    EXPECT_EQ(assumed("{" + std::string(key) + "}"), (Assumptions{false, true})) << key;
  }
  for (const char* key : {R"("tile": 1)", R"("tile_depth": 0)", R"("splits": 1)", R"("rescales": 9)"}) {
    EXPECT_EQ(assumed("{" + std::string(key) + "}"), (Assumptions{true, false})) << key;
  }
  std::string error;
  EXPECT_EQ(ParseDescription(R"({"name": "x"})", &error)->assumptions, (Assumptions{true, true}));
  const oracle::Contract contract = Described("{}").Assumed();
  EXPECT_TRUE(contract.scale_exact_powers);
  EXPECT_EQ(contract.tile, 16);
  EXPECT_EQ(contract.tile_depth, 15);
}

// Fails if rescales are not min(V - 1, max(255, ceil(V / 16))), or a sum is deeper than its terms
// allow.
TEST(Assumptions, RescalesAndDepthFollowTheVocabulary) {
  const oracle::Contract contract = Described("{}").Assumed();
  struct Row {
    int64_t v, rescales, depth;
  };
  for (const auto& [v, rescales, depth] : {Row{1, 0, 0},
                                           {2, 1, 1},
                                           {16, 15, 15},
                                           {17, 16, 16},
                                           {255, 254, 30},
                                           {256, 255, 30},
                                           {257, 255, 31},
                                           {4080, 255, 269},
                                           {4097, 257, 271},
                                           {151936, 9496, 9510}}) {
    const oracle::Arithmetic a = TargetArithmetic(contract, kernel::DType::kBf16, {1, v, 8});
    EXPECT_EQ(a.rescales, static_cast<double>(rescales)) << v;
    EXPECT_EQ(a.sum_depth, static_cast<double>(depth)) << v;
  }
}

// Fails if an assumed value is wider than the default in some bound, so that a wrong element would
// pass.
TEST(Assumptions, NarrowEveryBound) {
  const Description silent = Described("{}");
  int64_t narrower = 0, elements = 0;
  for (uint64_t i = 0; i < 150; ++i) {
    const OwnedProblem problem = Expand(DrawRecipe(77, i));
    if (problem.rows() * problem.vocab() * problem.hidden_size() > 1 << 18) continue;
    const Placement placement(problem);
    const auto expected = [&](const oracle::Contract& contract) {
      return oracle::Expected(placement.problem(), placement.results(), contract);
    };
    const oracle::Expectation wide = expected(silent.contract), narrow = expected(silent.Assumed());
    for (const oracle::Output output : oracle::kOutputs) {
      for (size_t e = 0; e < wide[output].elements.size(); ++e) {
        const oracle::Element &a = wide[output].elements[e], &b = narrow[output].elements[e];
        if (a.expect != oracle::Expect::kFinite || b.expect != oracle::Expect::kFinite) continue;
        EXPECT_LE(b.bound, a.bound * (1 + 0x1p-40)) << Format(DrawRecipe(77, i)) << " " << Name(output);
        narrower += b.bound < a.bound;
        ++elements;
      }
    }
  }
  EXPECT_GT(narrower, elements / 10);
}

// Fails if a named contract does not parse, is not the one of the page, or is the same as another.
TEST(Contracts, AreAsThePageSays) {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/fuzz/target/CONTRACTS.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> texts;
  for (const NamedContract& named : NamedContracts()) {
    std::string error;
    const auto held = DescriptionOf(std::string(named.name), &error);
    ASSERT_TRUE(held) << named.name << ": " << error;
    EXPECT_EQ(held->name, named.name);
    EXPECT_TRUE(texts.insert(std::string(named.json)).second);
    const size_t row = page.find("| `" + std::string(named.name) + "` |");
    ASSERT_NE(row, page.npos) << named.name;
    const std::string line = page.substr(row, page.find('\n', row) - row);
    const auto json = Json::Parse(named.json, &error);
    for (const auto& [key, value] : *json->as_object()) {
      EXPECT_THAT(line, HasSubstr("`" + key + "`"));
    }
  }
  EXPECT_EQ(page.find("| `none` |"), page.npos);
}

// Fails if a path with an @ loses a part of itself, or a contract's name stays with the target.
TEST(Contracts, StandBehindTheTargetsName) {
  EXPECT_THAT(SplitTarget("host"), Pair("host", ""));
  EXPECT_THAT(SplitTarget("host@fp32"), Pair("host", "fp32"));
  EXPECT_THAT(SplitTarget("plugin:./a@b.so"), Pair("plugin:./a@b.so", ""));
  EXPECT_THAT(SplitTarget("plugin:./a@b.so@hopper"), Pair("plugin:./a@b.so", "hopper"));
  EXPECT_THAT(SplitTarget("host@mine.json"), Pair("host", "mine.json"));
  EXPECT_THAT(SplitTarget("host@k=1/mine.json"), Pair("host", "k=1/mine.json"));
  EXPECT_EQ(HeldTo("host", "fp32"), "host@fp32");
  EXPECT_EQ(HeldTo("host", ""), "host");
  EXPECT_EQ(HeldTo("host@hopper", "fp32"), "host@hopper");
}

// Fails if the target keeps its own contract or promises, loses its capabilities, or if a contract that
// there is not is taken.
TEST(Contracts, TakeThePlaceOfTheTargetsOwn) {
  std::string error;
  const auto own = LoadTarget("host", &error), held = LoadTarget("host@black-box", &error);
  ASSERT_TRUE(own && held) << error;
  EXPECT_EQ(held->name(), "host@black-box");
  EXPECT_TRUE(own->description().contract.promises.definition);
  EXPECT_FALSE(held->description().contract.promises.definition);
  EXPECT_EQ(held->description().contract.accumulate, oracle::Accumulate::kUnknown);
  EXPECT_TRUE(held->description().assumptions.any());
  EXPECT_EQ(held->description().name, own->description().name);
  EXPECT_EQ(LoadTarget("host@hoper", &error), nullptr);
  EXPECT_THAT(error, HasSubstr("black-box, tensor-core-fp32, fp32, pytorch-fp32-logits, pytorch-eager, "
                               "pytorch-upcast, pytorch-cross-entropy, triton, hopper, cublas"));

  const testing::Workplace place;
  const auto file = [&](const std::string& text) {
    std::ofstream(place / "mine.json") << text;
    return "host@" + (place / "mine.json").string();
  };
  const std::string with_sign = (place / "k=1,own.json").string();
  std::ofstream(with_sign) << R"({"name": "m", "contract": {"exp_error": 3}})";
  const auto signed_path = LoadTarget("host@" + with_sign, &error);
  ASSERT_TRUE(signed_path) << error;
  EXPECT_EQ(signed_path->description().contract.exp_error, 3);
  const auto description = DescriptionOf(with_sign, &error);
  ASSERT_TRUE(description) << error;
  EXPECT_EQ(description->description.contract.exp_error, 3);
  const auto mine = LoadTarget(file(R"({"name": "m", "contract": {"exp_error": 7}})"), &error);
  ASSERT_TRUE(mine) << error;
  EXPECT_EQ(mine->description().contract.exp_error, 7);
  EXPECT_EQ(LoadTarget(file(R"({"name": "m", "contract": {"exp_error": -7}})"), &error), nullptr);
  EXPECT_THAT(error, HasSubstr("contract.exp_error is -7"));
  EXPECT_EQ(LoadTarget("host@none.json", &error), nullptr);
  EXPECT_THAT(error, HasSubstr("none.json"));
}

// Fails if a black box is said to show what its bounds allow, or a full declaration not to.
TEST(Contracts, SayWhatTheyCannotShow) {
  const auto lines = [](const std::string& contract) {
    std::string all;
    for (const std::string& line : NotShown(Described(contract))) all += line + "\n";
    return all;
  };
  EXPECT_THAT(lines("{}"),
              HasSubstr("x_y - lse in place of (x_y - m) - ln s where T is no power of two"));
  EXPECT_THAT(lines("{}"), HasSubstr("2^-126"));
  EXPECT_THAT(lines("{}"), HasSubstr("truncate"));
  EXPECT_THAT(lines(R"({"exp_gradual": true})"), ::testing::Not(HasSubstr("2^-126")));
  EXPECT_THAT(lines(R"({"accumulate": "fp32"})"), ::testing::Not(HasSubstr("truncate")));
  EXPECT_THAT(lines(R"({"plain_logprob": true})"), ::testing::Not(HasSubstr("x_y - lse")));
}

}  // namespace
}  // namespace plumbline::fuzz

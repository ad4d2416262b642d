// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/expansion.h"
#include "fuzz/base/hash.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/recipe/recipe.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Workplace;

// 50 000 * 8 elements of bf16: 800 KiB as tensors.
constexpr const char* kHuge =
    "v1 seed=7 n=2 v=50000 h=8 labels=some-ignored entropy_grads=random temperature=2 pad=3 "
    "layout=hidden-major";

OwnedProblem Expanded(const std::string& line) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse(line, &recipe, &error)) << error;
  return Expand(recipe);
}

// The huge problem with its temperature left out and three elements of its own, one of them a NaN.
Case Huge() {
  Case c;
  c.recipe = kHuge;
  c.target = "host";
  c.problem = Expanded(kHuge);
  c.problem.temperature.reset();
  c.problem.weight.SetFloat(399'999, 17);
  c.problem.hidden.SetBits(3, 0x7fc1);
  c.problem.labels.SetInt(1, 49'999);
  c.problem.layout.hidden_padding = 0;
  c.problem.wanted.lse = false;
  return c;
}

// Fails for an element, an absence or an option that is lost on the way; a huge case above the cap.
TEST(CaseExpansion, AHugeCaseFitsAndComesBackBitForBit) {
  const Case c = Huge();
  const std::vector<std::byte> bytes = StoredBytes(c);
  EXPECT_LT(static_cast<int64_t>(bytes.size()), 4096);
  std::string error;
  const auto content = ReadSafeTensors(bytes, &error);
  ASSERT_TRUE(content) << error;
  EXPECT_TRUE(content->tensors.empty());
  const auto back = ParseCase(bytes, &error);
  ASSERT_TRUE(back) << error;
  EXPECT_EQ(*back, c);
  EXPECT_EQ(StoredBytes(*back), bytes);
}

// Fails for a file that changes form where nothing is gained, or that leaves out tensors that no recipe
// gives.
TEST(CaseExpansion, OnlyWhereTheTensorsAreTooLargeAndTheRecipeGivesThem) {
  Case small;
  small.recipe = "v1 seed=7 n=2 v=50 h=8";
  small.problem = Expanded(small.recipe);
  EXPECT_EQ(StoredBytes(small), SerializeCase(small));

  Case other = Huge();
  for (size_t i = 0; i <= kMaxOverrides; ++i) {
    const auto at = static_cast<int64_t>(i);
    other.problem.weight.SetBits(at, other.problem.weight.GetBits(at) ^ 1);
  }
  EXPECT_EQ(StoredBytes(other), SerializeCase(other)) << "more overrides than may be";
  other = Huge();
  other.recipe = "v1 seed=8 n=2 v=50000 h=8";
  EXPECT_EQ(StoredBytes(other), SerializeCase(other)) << "another seed";
  other.recipe = "";
  EXPECT_EQ(StoredBytes(other), SerializeCase(other));
  other.recipe = kHuge;
  other.problem.grad_entropy.reset();
  EXPECT_LT(StoredBytes(other).size(), 4096U);
  other.recipe = "v1 seed=7 n=2 v=50000 h=8 labels=some-ignored";
  other.problem = Expanded(other.recipe);
  other.problem.temperature = HostTensor::Zeros(kernel::DType::kF32, {});
  EXPECT_EQ(StoredBytes(other), SerializeCase(other)) << "a tensor that the recipe has not";
}

// Fails if a stride that a recipe has is taken for one over the lines of another tensor: the problem is
// then judged as its recipe and refused as a case, so that its finding is neither shrunk nor replayed.
TEST(CaseExpansion, WideStridesCanBeStored) {
  for (const char* const wide : {"hidden", "weight", "labels", "grads"}) {
    for (const char* const shape :
         {"n=1 v=513 h=60", "n=8 v=513 h=60", "n=300 v=2 h=3", "n=2 v=3 h=700"}) {
      for (const char* const layout : {"vocab-major", "hidden-major"}) {
        Case c;
        c.recipe =
            std::string("v1 seed=7 ") + shape + " layout=" + layout + " grads=random wide=" + wide;
        c.problem = Expanded(c.recipe);
        std::string error;
        const auto back = ParseCase(SerializeCase(c), &error);
        ASSERT_TRUE(back) << c.recipe << ": " << error;
        EXPECT_EQ(*back, c);
      }
    }
  }
}

// Fails if a case with the most overrides, in the tensor with the longest name and the widest bits, is
// above the cap of a file.
TEST(CaseExpansion, TheMostOverridesStayBelowTheCap) {
  Case c;
  c.recipe = "v1 seed=7 dtype=fp32 n=2000 v=4 h=64 entropy_grads=random";
  c.problem = Expanded(c.recipe);
  for (size_t i = 0; i < kMaxOverrides; ++i) {
    const auto at = static_cast<int64_t>(i);
    c.problem.grad_entropy->SetBits(at, c.problem.grad_entropy->GetBits(at) ^ 0x80000000U);
  }
  EXPECT_LE(static_cast<int64_t>(StoredBytes(c).size()), kMaxCaseBytes);
}

std::string RefusalOf(const std::function<void(SafeTensors&, Json&)>& change) {
  static const std::vector<std::byte> kBytes = StoredBytes(Huge());
  std::string error;
  SafeTensors content = *ReadSafeTensors(kBytes, &error);
  Json json = *Json::Parse(content.metadata.at("case"), &error);
  change(content, json["expansion"]);
  content.metadata["case"] = json.Dump();
  error.clear();
  EXPECT_FALSE(ParseCase(WriteSafeTensors(content), &error).has_value());
  return error;
}

// Each fails if the fault named is let through.
TEST(CaseExpansion, Refusals) {
  struct Row {
    const char* names;
    std::function<void(SafeTensors&, Json&)> change;
  };
  using S = SafeTensors&;
  const auto override = [](Json tensor, Json index, Json bits) {
    return [=](S, Json& j) {
      j["overrides"] = Json::Array{Json(Json::Array{Json(tensor), Json(index), Json(bits)})};
    };
  };
  const Row rows[] = {
      {"expansion is 3", [](S, Json& j) { j = Json(3); }},
      {"expansion.generator is 2", [](S, Json& j) { j["generator"] = 2; }},
      {"expansion.recipe is missing",
       [](S, Json& j) {
         Json::Object object = *j.as_object();
         object.erase("recipe");
         j = Json(object);
       }},
      {"expansion.recipe: ", [](S, Json& j) { j["recipe"] = "v2"; }},
      {"expansion.seed is an unknown key", [](S, Json& j) { j["seed"] = 2; }},
      {"expansion.check is \"xyz\"", [](S, Json& j) { j["check"] = "xyz"; }},
      {"another generator wrote it", [](S, Json& j) { j["check"] = "1"; }},
      {"another generator wrote it", [](S, Json& j) { j["absent"] = Json::Array(); }},
      {"no \"hidden\" to leave out", [](S, Json& j) { j["absent"].Append("hidden"); }},
      {"no \"temperature\" to leave out", [](S, Json& j) { j["absent"].Append("temperature"); }},
      {"expansion.absent[1] is 3", [](S, Json& j) { j["absent"].Append(3); }},
      {"expansion.overrides: 7", [](S, Json& j) { j["overrides"].Append(7); }},
      {"no tensor \"bias\"", override("bias", 0, "0")},
      {"no tensor \"temperature\"", override("temperature", 0, "0")},
      {"hidden has 16 elements, none 16", override("hidden", 16, "0")},
      {"hidden has 16 elements, none -1", override("hidden", -1, "0")},
      {"more than the 16 bits of hidden", override("hidden", 0, "10000")},
      {"not [tensor, index", override("hidden", 0, "0x1")},
      {"not [tensor, index", override("hidden", 0, 1)},
      {"an array of at most 1024",
       [](S, Json& j) {
         for (size_t i = 0; i <= kMaxOverrides; ++i) {
           j["overrides"].Append(Json::Array{Json("hidden"), Json(0), Json("0")});
         }
       }},
      {"\"hidden\" beside an expansion",
       [](S s, Json&) {
         s.tensors["hidden"] = HostTensor::Zeros(kernel::DType::kBf16, {1, 1});
       }},
      // These would exhaust the machine, so they must be refused before anything is expanded.
      {"at most 134217728 are read", [](S, Json& j) { j["recipe"] = "v1 n=1 v=16384 h=16384"; }},
      {"at most 134217728 are read", [](S, Json& j) { j["recipe"] = "v1 n=268435456 v=1 h=0"; }},
      {"at most 8589934592 is expanded",
       [](S, Json& j) { j["recipe"] = "v1 n=4096 v=16384 h=4096 labels=argmax"; }},
  };
  for (const Row& row : rows) EXPECT_THAT(RefusalOf(row.change), HasSubstr(row.names)) << row.names;
}

// Fails for a caller's limits that are ignored (the fuzzer depends on them).
TEST(CaseExpansion, TheCallersLimitsHold) {
  std::string error;
  const auto bytes = StoredBytes(Huge());
  EXPECT_FALSE(ParseCase(bytes, &error, {.elements = 400'000, .work = 1 << 30}).has_value());
  EXPECT_THAT(error, HasSubstr("400024 elements, at most 400000"));
  EXPECT_FALSE(ParseCase(bytes, &error, {.elements = 1 << 20, .work = 799'999}).has_value());
  EXPECT_THAT(error, HasSubstr("at most 799999"));
  EXPECT_TRUE(ParseCase(bytes, &error, {.elements = 400'024, .work = 800'000}).has_value()) << error;
}

// Fails for a hash that does not see a dtype, a shape, a bit, or which tensor it is.
TEST(CaseExpansion, TheHashSeesEverything) {
  const OwnedProblem p = Expanded("v1 seed=3 n=2 v=2 h=2 entropy_grads=ones");
  std::set<uint64_t> seen = {TensorHash(p)};
  const auto expect_new = [&](const std::function<void(OwnedProblem&)>& change) {
    OwnedProblem changed = p;
    change(changed);
    EXPECT_TRUE(seen.insert(TensorHash(changed)).second) << seen.size();
  };
  expect_new([](OwnedProblem& q) { q.hidden.SetBits(3, q.hidden.GetBits(3) ^ 1); });
  expect_new([](OwnedProblem& q) { q.hidden.shape = {4, 1}; });
  expect_new([](OwnedProblem& q) { q.hidden.dtype = kernel::DType::kF16; });
  expect_new([](OwnedProblem& q) { std::swap(q.hidden, q.weight); });
  expect_new([](OwnedProblem& q) { q.grad_entropy.reset(); });
  expect_new([](OwnedProblem& q) { q.grad_logprob.reset(); });
  expect_new([](OwnedProblem& q) { std::swap(q.temperature, q.grad_entropy); });
  // FNV-1a of "a", from the definition's table of test vectors.
  const std::byte a{0x61};
  EXPECT_EQ(Fnv1a(std::span(&a, 1)).value(), 0xaf63dc4c8601ec8cU);
}

}  // namespace
}  // namespace plumbline::fuzz

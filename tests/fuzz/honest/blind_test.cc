// SPDX-License-Identifier: Apache-2.0
//
// Foreign kernels on blind cases. None may have a finding while it declares what it does; each must
// have one when it declares less.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::fuzz {
namespace {

// Makes a seed of a kernel's name, the same everywhere.
uint64_t Seed(std::string_view name) {
  uint64_t seed = 0;
  for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
  return seed;
}

// Larger shapes are left to the campaigns of bench/store.
bool IsSmall(const Recipe& r) { return r.n * r.v <= 20'000 && r.v * r.h <= 50'000; }

class HonestKernel : public ::testing::TestWithParam<honest::Kernel> {};

// Two cases of nearly every regime, another draw for each kernel. Fails for a bound that an honest
// kernel exceeds, for a convention that is taken for a fault, and for a kernel that does other
// arithmetic than it declares. At least 60 cases must be judged: a kernel could pass because it
// declines everything.
TEST_P(HonestKernel, HasNoFinding) {
  std::string error;
  const auto target =
      LoadTarget(std::string("plugin:" HONEST_PLUGINS "/honest-") + GetParam().name + ".so", &error);
  ASSERT_TRUE(target) << error;
  int judged = 0;
  for (uint64_t i = 0; i < 120; ++i) {
    const Recipe recipe = DrawRecipe(Seed(GetParam().name), i);
    if (!IsSmall(recipe)) continue;
    const CaseResult result = Examine(Expand(recipe), *target, {.seed = i, .arbiter = false});
    for (const Finding& finding : result.findings)
      ADD_FAILURE() << finding.what << "\n" << Format(recipe);
    EXPECT_EQ(result.harness_fault, "");
    judged += result.verdict == oracle::Verdict::kPass;
  }
  EXPECT_GE(judged, 60);
}

INSTANTIATE_TEST_SUITE_P(All, HonestKernel, ::testing::ValuesIn(honest::Kernels()),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

// A kernel under a description that is not its own.
const honest::Kernel* liar = nullptr;
std::string lie;

int RunLiar(const plumbline_problem* problem, plumbline_results* results, void*, char* error,
            size_t capacity) {
  return honest::Run(*liar, *problem, *results, error, capacity);
}
constexpr plumbline_target_v1 kLiar = {PLUMBLINE_TARGET_ABI_VERSION,
                                       sizeof(plumbline_target_v1),
                                       [] { return lie.c_str(); },
                                       RunLiar,
                                       nullptr,
                                       nullptr,
                                       nullptr};

struct Lie {
  const char *kernel, *truth, *said;
};

// Fails if blind cases do not tell a declaration from one that is too good, and HasNoFinding therefore
// shows nothing.
TEST(LyingKernels, AreFound) {
  constexpr std::array kLies = {
      Lie{"two-pass", R"("exp_of_lse")", R"("ratio")"},
      Lie{"split-k", R"("label_logit_separate": true)", R"("label_logit_separate": false)"},
      Lie{"split-k", R"("recompute_same_bits": false)", R"("recompute_same_bits": true)"},
      Lie{"ampere", R"("extra_bits": 1)", R"("extra_bits": 64)"},
      Lie{"daz", R"("operands")", R"("none")"},
      Lie{"tf32", "0.00048828125", "0"},
      Lie{"bf16-accumulator", R"("accumulator": "bf16")", R"("accumulator": "fp32")"},
      Lie{"fp16-accumulator", R"("vocab_chunk": 16)", R"("vocab_chunk": 1048576)"},
      Lie{"lazy", R"("fused_stored")", R"("exact_max")"},
      Lie{"lazy", R"("exp_error": 1480)", R"("exp_error": 4)"},
      Lie{"p-log-p", R"("plain_logprob": true)", R"("plain_logprob": false)"},
      Lie{"p-x", R"("plain_entropy": true)", R"("plain_entropy": false)"},
      Lie{"rough-exponential", R"("argument_roundings": 60)", R"("argument_roundings": 2)"},
      Lie{"rough-scale", R"("log_error_absolute": 200)", R"("log_error_absolute": 0)"},
      Lie{"plain", R"("division_error": 112)", R"("division_error": 1)"},
      Lie{"truncated", R"("fp32_truncated")", R"("fp32")"},
  };
  for (const Lie& of : kLies) {
    liar = honest::Find(of.kernel);
    ASSERT_TRUE(liar) << of.kernel;
    lie = honest::Description(*liar);
    const size_t at = lie.find(of.truth);
    ASSERT_NE(at, std::string::npos) << of.kernel << " does not say " << of.truth;
    lie.replace(at, std::string_view(of.truth).size(), of.said);
    std::string error;
    const auto target = Target::Adopt(of.kernel, &kLiar, &error);
    ASSERT_TRUE(target) << error;
    bool found = false;
    for (uint64_t i = 0; i < 400 && !found; ++i) {
      const Recipe recipe = DrawRecipe(1, i);
      if (!IsSmall(recipe)) continue;
      const CaseResult result = Examine(Expand(recipe), *target, {.seed = i, .arbiter = false});
      found = result.verdict == oracle::Verdict::kFail;
    }
    EXPECT_TRUE(found) << of.kernel << " said " << of.said;
  }
}

}  // namespace
}  // namespace plumbline::fuzz

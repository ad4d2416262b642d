// SPDX-License-Identifier: Apache-2.0
//
// The hooks of the host's mutants: a defect changes results where it should and nowhere else, and
// neither defects nor hooks reach the object code of what is installed.

#include "fuzz/builtin/mutants/host_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "fuzz/builtin/mutants/table.h"
#include "kernel/host/operator.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::TestOutputs;
using kernel::TestValues;

TestOutputs With(int active, const TestValues& values) {
  kernel::PlacedProblem placed(values);
  MutantHooks<host::FusedChains> hooks;
  hooks.active = active;
  const kernel::Status status = host::RunImpl(placed.problem(), placed.results(), 1, hooks);
  EXPECT_TRUE(status.ok()) << status.message;
  return placed.Outputs();
}

struct Aimed {
  HostMutantName mutant;
  void (*aim)(TestValues&);  // changes the base problem into one that shows the defect
};

void PrintTo(const Aimed& aimed, std::ostream* out) {
  *out << kMutants[static_cast<size_t>(aimed.mutant.row)].name;
}

// A problem on which no defect shows: whole tiles, all logits 0, so that nothing is rounded (p = 1/128)
// and no maximum moves, one gradient for all, no ignored row, no temperature.
TestValues Harmless() {
  TestValues values = TestValues::Random(DType::kBf16, 3, 128, 1, 5);
  values.hidden = {1, 1, 1};
  values.weight.assign(128, 0);
  values.labels.assign(3, 127);  // the last column, with no column to its right
  values.g.assign(3, 0.5f);
  values.k.assign(3, 0.25f);
  values.fp32_grads = true;
  return values;
}

const Aimed kAimed[] = {
    {HostMutantName("tail-unmasked"),
     [](TestValues& values) {
       values.v = 100;
       values.weight.resize(100);
       values.labels.assign(3, 99);
     }},
    {HostMutantName("max-from-zero"),
     [](TestValues& values) {
       for (float& w : values.weight) w -= 200;
     }},
    {HostMutantName("plain-logprob"),
     [](TestValues& values) {
       for (float& w : values.weight) w += 4096;
     }},
    {HostMutantName("logits-rounded"),
     [](TestValues& values) { values.hidden.assign(3, 1.0078125f), values.weight[0] = 1.0078125f; }},
    {HostMutantName("probability-rounded"), [](TestValues& values) { values.weight[0] = 9; }},
    {HostMutantName("first-grad-for-all"),
     [](TestValues& values) {
       values.g = {0, 1, 2};
     }},
    {HostMutantName("entropy-not-rebased"), [](TestValues& values) { values.weight[127] = 3; }},
    {HostMutantName("ignored-row-leaks"),
     [](TestValues& values) {
       values.labels[1] = -100;
       values.hidden[1] = std::numeric_limits<float>::quiet_NaN();
     }},
    {HostMutantName("label-off-by-one"),
     [](TestValues& values) {
       values.labels = {127, 63, 127};  // from one tile into the next
     }},
    {HostMutantName("backward-temperature"),
     [](TestValues& values) {
       values.temperature = {2, 2, 2};
     }},
    {HostMutantName("entropy-grad-dropped"), [](TestValues& values) { values.weight[0] = 1; }},
    {HostMutantName("grad-hidden-accumulator"), [](TestValues& values) { values.weight[0] = 1; }},
};

class MutantHooksTest : public ::testing::TestWithParam<Aimed> {};

// Fails if a defect has no effect where its name says, or if the hooks alone change something.
TEST_P(MutantHooksTest, ChangesWhatItIsAimedAt) {
  TestValues values = Harmless();
  GetParam().aim(values);
  const TestOutputs clean = kernel::Computed(values);
  EXPECT_FALSE(With(GetParam().mutant.row, values) == clean);
  EXPECT_TRUE(With(kNoMutant, values) == clean);
}

// Fails if a defect shows without its trigger, and so would be found by any test.
TEST_P(MutantHooksTest, IsSilentWithoutItsTrigger) {
  const TestValues values = Harmless();
  EXPECT_TRUE(With(GetParam().mutant.row, values) == kernel::Computed(values));
}

INSTANTIATE_TEST_SUITE_P(Host, MutantHooksTest, ::testing::ValuesIn(kAimed));

// Fails if the forward outputs of an ignored row that leaks are not zeros.
TEST(MutantHooks, LeakingRowsLookIgnored) {
  TestValues values = Harmless();
  kAimed[7].aim(values);
  const TestOutputs out = With(HostMutantName("ignored-row-leaks").row, values);
  EXPECT_EQ(out.logprob[1], 0u);
  EXPECT_EQ(out.lse[1], 0u);
  EXPECT_TRUE(std::isnan(TestOutputs::Float(out.grad_hidden[1])));
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t Count(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Fails if an archive that is installed holds a mutant, as a string or in a symbol, or an operator with
// other hooks than those that do nothing: NoHooks, and host-hopper's, which differ in `Dots` alone.
// This program has mutants, and so shows what would be found.
TEST(MutantHooks, NoneIsInAnInstalledArchive) {
#if !defined(__OPTIMIZE__)
  GTEST_SKIP() << "without optimisation the functions of NoHooks are called";
#endif
  std::istringstream archives(PLUMBLINE_ARCHIVES);
  for (std::string path; std::getline(archives, path, ':');) {
    const std::string bytes = BytesOf(path);
    ASSERT_GT(bytes.size(), 10'000u) << path;
    for (const MutantRow& mutant : kMutants) {
      EXPECT_EQ(Count(bytes, mutant.name), 0u) << mutant.name << " in " << path;
    }
    EXPECT_EQ(Count(bytes, "Hooks"), Count(bytes, "NoHooks")) << path;
    EXPECT_EQ(Count(bytes, "Defect"), 0u) << path;
  }
  const std::string self = BytesOf(std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_GT(Count(self, "MutantHooks"), 0u);
  for (const MutantRow& mutant : kMutants) EXPECT_GT(Count(self, mutant.name), 0u) << mutant.name;
}

}  // namespace
}  // namespace plumbline::fuzz

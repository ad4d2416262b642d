// SPDX-License-Identifier: Apache-2.0
//
// The Defects policy: every defect of kernel/host/defects.h changes results where it should and nowhere
// else, and none of them reaches the object code of the operator.

#include "kernel/host/defects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>

#include "kernel/cuda/operator.h"
#include "kernel/host/operator.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::host {

// Has is not inline, so each place in a stage that asks leaves a reference to its symbol. An object
// file that holds a defect has such references.
struct WitnessPolicy {
  using Dots = FusedChains;
  Defect active;
  [[gnu::noinline]] bool Has(Defect defect) const;
};
bool WitnessPolicy::Has(Defect defect) const { return defect == active; }

namespace {

TestOutputs With(Defect defect, const TestValues& values) {
  PlacedProblem placed(values);
  const Status status = RunImpl(placed.problem(), placed.results(), 1, WitnessPolicy{defect});
  EXPECT_TRUE(status.ok()) << status.message;
  return placed.Outputs();
}

struct Planted {
  Defect defect;
  const char* name;
  void (*aim)(TestValues&);  // changes the base problem into one that shows the defect
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

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

const Planted kPlanted[] = {
    {Defect::kTailUnmasked, "TailUnmasked",
     [](TestValues& values) {
       values.v = 100;
       values.weight.resize(100);
       values.labels.assign(3, 99);
     }},
    {Defect::kMaxFromZero, "MaxFromZero",
     [](TestValues& values) {
       for (float& w : values.weight) w -= 200;
     }},
    {Defect::kPlainLogprob, "PlainLogprob",
     [](TestValues& values) {
       for (float& w : values.weight) w += 4096;
     }},
    {Defect::kLogitsRounded, "LogitsRounded",
     [](TestValues& values) { values.hidden.assign(3, 1.0078125f), values.weight[0] = 1.0078125f; }},
    {Defect::kProbabilityRounded, "ProbabilityRounded",
     [](TestValues& values) { values.weight[0] = 9; }},
    {Defect::kFirstGradForAll, "FirstGradForAll",
     [](TestValues& values) {
       values.g = {0, 1, 2};
     }},
    {Defect::kEntropyNotRebased, "EntropyNotRebased",
     [](TestValues& values) { values.weight[127] = 3; }},
    {Defect::kIgnoredRowLeaks, "IgnoredRowLeaks",
     [](TestValues& values) {
       values.labels[1] = -100;
       values.hidden[1] = std::numeric_limits<float>::quiet_NaN();
     }},
    {Defect::kLabelOffByOne, "LabelOffByOne",
     [](TestValues& values) {
       values.labels = {127, 63, 127};  // from one tile into the next
     }},
    {Defect::kBackwardTemperature, "BackwardTemperature",
     [](TestValues& values) {
       values.temperature = {2, 2, 2};
     }},
    {Defect::kEntropyGradDropped, "EntropyGradDropped",
     [](TestValues& values) { values.weight[0] = 1; }},
    {Defect::kGradHiddenAccumulator, "GradHiddenAccumulator",
     [](TestValues& values) { values.weight[0] = 1; }},
};

class Defects : public testing::TestWithParam<Planted> {};

// Fails if a defect has no effect where its name says, or another defect's effect.
TEST_P(Defects, ChangesWhatItIsAimedAt) {
  TestValues values = Harmless();
  GetParam().aim(values);
  const TestOutputs clean = Computed(values);
  EXPECT_FALSE(With(GetParam().defect, values) == clean);
  // The policy alone changes nothing, so a difference is the defect's.
  EXPECT_TRUE(With(Defect::kNone, values) == clean);
}

// Fails if a defect shows without its trigger, and so would be found by any test.
TEST_P(Defects, IsSilentWithoutItsTrigger) {
  const TestValues values = Harmless();
  EXPECT_TRUE(With(GetParam().defect, values) == Computed(values));
}

INSTANTIATE_TEST_SUITE_P(Kernel, Defects, testing::ValuesIn(kPlanted),
                         [](const testing::TestParamInfo<Planted>& planted) {
                           return planted.param.name;
                         });

// Fails if the forward outputs of an ignored row that leaks are not zeros.
TEST(DefectsTest, LeakingRowsLookIgnored) {
  TestValues values = Harmless();
  kPlanted[7].aim(values);
  const TestOutputs out = With(Defect::kIgnoredRowLeaks, values);
  EXPECT_EQ(out.logprob[1], 0u);
  EXPECT_EQ(out.lse[1], 0u);
  EXPECT_TRUE(std::isnan(TestOutputs::Float(out.grad_hidden[1])));
}

// Returns the demangled symbols of a file, one a line.
std::string Symbols(const std::string& path) {
  std::string text;
  FILE* const pipe = popen(("nm -C '" + path + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), got);
  pclose(pipe);
  return text;
}

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The archive that is linked and installed holds one instantiation of the stages and of the CUDA
// kernels, NoDefects', and asks no policy anything: no symbol names `Defect` except as the template
// argument NoDefects. This program instantiates the host's stages with a policy that answers at run
// time, and so shows what would be found. Fails if a mutant is instantiated in kernel/, or if
// NoDefects::Has is no longer a constant.
TEST(DefectsTest, ObjectCodeOfTheOperatorNamesNone) {
#if !defined(__OPTIMIZE__)
  GTEST_SKIP() << "without optimisation constants are called for";
#endif
  const std::string archive = Symbols(PLUMBLINE_KERNEL_ARCHIVE);
  ASSERT_THAT(archive, testing::HasSubstr("plumbline::kernel::host::Forward("));
  EXPECT_EQ(Count(archive, "Defect"), Count(archive, "NoDefects"));
  EXPECT_EQ(Count(archive, "::Has("), 0u);
  EXPECT_EQ(Count(archive, "planted::"), 0u);
  EXPECT_EQ(Count(archive, "Planted"),
            0u);  // the CUDA operator's planted kernels have a name of their own
  EXPECT_EQ(Count(archive, "kernel::cuda::NoDefects") > 0, cuda::Built());

  const std::string self = Symbols(std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_GT(Count(self, "WitnessPolicy::Has("), 0u);
  EXPECT_GT(Count(self, "planted::"), 0u);
  EXPECT_GT(Count(self, "Defect"), Count(self, "NoDefects"));
}

}  // namespace
}  // namespace plumbline::kernel::host

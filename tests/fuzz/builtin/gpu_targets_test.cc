// SPDX-License-Identifier: Apache-2.0
//
// Targets on a real device, through the built program. Each test names one misbehaviour of
// tests/fuzz/plugins/on_cuda.cu, which must be found, reported in words that lead to it, and survived;
// GpuOneCause its defects, each of which must be few findings. CudaWays needs no device: how our own
// targets call the operator, by shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/base/units.h"
#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/cuda_way.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/interface/cuda_device.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"
#include "kernel/cuda/layout/row_blocks.h"
#include "kernel/cuda/layout/workspace.h"
#include "tests/fuzz/support/located.h"
#include "tests/fuzz/support/program.h"
#include "tests/gpu/ways_once.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

// V % 4 is 1, so the plug-in misbehaves.
constexpr const char* kBad = "'v1 seed=1 n=3 v=5 h=3 dtype=fp32'";

class GpuTargets : public testing::Program {
 protected:
  void SetUp() override {
    std::string missing;
    if (CudaDevice(&missing) == nullptr) GTEST_SKIP() << missing;
  }
  Outcome Fuzz(const std::string& deed, const std::string& options) const {
    static int count = 0;
    return Run("fuzz --target plugin:" + testing::LocatedProgram(PLUMB_CUDA_PLUGIN) +
                   " --seed 1 --out hunt" + std::to_string(count++) + " " + options,
               "PLUMB_DEED=" + deed);
  }
};

// The control: a plug-in that does not misbehave passes every case that it can do. Fails for a default
// number of jobs for a plug-in on a device that equals the number of hardware threads, which take turns
// on it.
TEST_F(GpuTargets, ThatDoesNothingPasses) {
  const Outcome o = Fuzz("nothing", "--budget 2000cases --blind --json");
  EXPECT_EQ(o.status, 0) << o.out << Err();
  EXPECT_THAT(o.last, HasSubstr("\"jobs\":" + std::to_string(DefaultJobs(true))));
  EXPECT_THAT(o.last, HasSubstr("\"pass\":1"));  // more than a hundred of them
}

// Fails for an error of the device that is not seen at its case, whose message is lost, or after which
// this worker goes on and every case fails.
TEST_F(GpuTargets, AStickyErrorIsACrashInCudasWords) {
  const std::pair<const char*, const char*> deeds[] = {
      {"illegal-address", "an illegal memory access was encountered (cudaErrorIllegalAddress)"},
      {"misaligned", "misaligned address (cudaErrorMisalignedAddress)"},
      {"trap", "CUDA: "}};
  for (const auto& [deed, words] : deeds) {
    Outcome o = Fuzz(deed, std::string("--recipe ") + kBad);
    EXPECT_EQ(o.status, 1) << deed << Err();
    EXPECT_THAT(o.out, HasSubstr("crash")) << deed;
    EXPECT_THAT(o.out, HasSubstr("its device lost")) << deed;
    EXPECT_THAT(o.out, HasSubstr(words)) << deed;
  }
  const Outcome many = Fuzz("illegal-address", "--budget 100cases --blind --jobs 2 --json");
  EXPECT_EQ(many.status, 1) << Err();
  std::string error;
  const auto said = Json::Parse(many.last, &error);
  ASSERT_TRUE(said) << error << many.out;
  EXPECT_EQ(*said->Find("findings")->as_int(), 1) << many.out;
  const Json& target = said->Find("targets")->as_array()->at(0);
  EXPECT_EQ(*target.Find("cases")->as_int(), 100);
  EXPECT_GT(*target.Find("pass")->as_int(), 50);  // V % 4 is 1 in a third of them
}

// Fails for a kernel without end that is waited for, that counts as a crash, or beside which the next
// worker cannot start.
TEST_F(GpuTargets, AKernelWithoutEndIsAHang) {
  const Outcome o = Fuzz("endless", std::string("--case-timeout 3s --recipe ") + kBad);
  EXPECT_EQ(o.status, 1) << Err();
  EXPECT_THAT(o.out, HasSubstr("hang"));
  EXPECT_EQ(Fuzz("nothing", std::string("--recipe ") + kBad).status, 0) << Err();
}

// Fails for writes that stay on the device unseen, a failed launch that is not reported, work that is
// not ordered with the rest.
TEST_F(GpuTargets, WhatARunLeavesIsSeen) {
  const std::pair<const char*, const char*> deeds[] = {{"write-outside", "guard-band"},
                                                       {"write-input", "input-written"},
                                                       {"wrong-stream", ""},
                                                       {"bad-launch", ""}};
  for (const auto& [deed, signature] : deeds) {
    const Outcome o = Fuzz(deed, std::string("--recipe ") + kBad);
    EXPECT_EQ(o.status, 1) << deed << o.out << Err();
    EXPECT_THAT(o.out, HasSubstr(signature)) << deed;
  }
}

// Takes all memory of the device, so nothing else can run beside it.
class GpuMemory : public GpuTargets {};

// Fails for a target that takes all memory, so that every case is skipped without a report.
TEST_F(GpuMemory, ThatATargetKeepsIsAFinding) {
  setenv("PLUMB_DEED", "keep-everything", 1);
  WorkerSpec spec;
  spec.target = "plugin:" + testing::LocatedProgram(PLUMB_CUDA_PLUGIN);
  spec.program = testing::LocatedProgram(PLUMB_PROGRAM);
  CaseRunner runner(spec, std::chrono::seconds(60), nullptr);
  // From the first case on there is room for small requests, but not for larger ones.
  const Judged taken = runner.Run(RequestFor("v1 seed=1 n=3 v=5 h=3 dtype=fp32", 1));
  EXPECT_EQ(taken.result.verdict, oracle::Verdict::kPass) << taken.error;
  const Request larger = RequestFor("v1 seed=1 n=4096 v=4 h=1024 dtype=fp32", 1);
  const Judged without = runner.Run(larger);
  unsetenv("PLUMB_DEED");
  ASSERT_EQ(without.result.findings.size(), 1U);
  EXPECT_EQ(without.result.findings[0].Signature(), "status:memory");
  EXPECT_THAT(without.result.findings[0].what, HasSubstr("the target kept"));
  EXPECT_EQ(runner.Run(larger).result.verdict, oracle::Verdict::kPass);
}

class GpuOneCause : public GpuTargets {};

// Fails for a defect that is not found, or if the twelve of them make more than 1.2 findings each.
TEST_F(GpuOneCause, ADefectIsFewFindings) {
  constexpr const char* kDefects[] = {
      "dropped-tail",  "max-from-zero",   "label-off-by-one",      "entropy-not-divided",
      "label-missing", "not-accumulated", "entropy-gradient-sign", "first-gradient-for-all",
      "depth-tail",    "not-zeroed",      "last-block-missing",    "write-beyond"};
  constexpr size_t kMost = 14;  // 1.2 times 12
  size_t findings = 0;
  for (const char* const defect : kDefects) {
    const std::string folder = std::string("hunt-") + defect;
    const Outcome o = Run("fuzz --target plugin:" + testing::LocatedProgram(PLUMB_CUDA_PLUGIN) +
                              " --seed 1 --budget 400cases --shrink-tries 1000 --out " + folder,
                          std::string("PLUMB_DEFECT=") + defect);
    EXPECT_EQ(o.status, 1) << defect << o.out << Err();
    std::string error;
    const auto summary = Json::Parse(testing::Slurp(work_ / folder / "summary.json"), &error);
    ASSERT_TRUE(summary) << defect << error;
    const size_t found = summary->Find("sightings")->as_array()->size();
    RecordProperty(defect, static_cast<int>(found));
    if (found > 1) std::cout << defect << ":\n" << o.out;
    findings += found;
  }
  EXPECT_LE(findings, kMost);
}

// Fails for a command that treats a target on a device as one on the host.
TEST_F(GpuTargets, CheckRunsThem) {
  const Outcome o = Run("check " + testing::LocatedSource("corpus/real/minilm-64.safetensors") +
                        " --rows all --run --target cuda");
  EXPECT_EQ(o.status, 0) << o.out << Err();
}

// The ways of the targets on a device, by the shapes that a campaign draws. Needs no device. Fails if a
// way, or a division of a problem that it is there for, is no longer reached by small cases.
TEST(CudaWays, SmallCasesReachAll) {
  std::map<std::string, int> reached;
  for (const char* way : {"nothing saved", "a part saved", "all saved", "consumed", "as logits",
                          "chunks of 384", "chunks of 2304", "several chunks", "a stretch in parts",
                          "stretches together", "a sweep", "two buffers", "beside products in place",
                          "an end of two chunks", "totals behind", "blocks and short chunks"})
    reached[way] = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const Recipe recipe = DrawRecipe(7, i);
    kernel::Problem problem;
    problem.hidden = {nullptr, recipe.dtype, 2, {recipe.n, recipe.h}, {recipe.h, 1}};
    problem.weight = {nullptr, recipe.dtype, 2, {recipe.v, recipe.h}, {recipe.h, 1}};
    const CudaWay way = SavingSome(problem, nullptr, kernel::CudaPath::kBest);
    const kernel::Execution& execution = way.execution;
    const auto layout = kernel::cuda::MakeLayout(problem, EveryResult(problem, recipe.fp32_grads),
                                                 {.bytes = execution.saved_logits_bytes,
                                                  .form = execution.kept_form,
                                                  .consumed = execution.saved_is_consumed,
                                                  .chunk_columns = way.chunk_columns});
    ASSERT_TRUE(layout.has_value());
    const kernel::cuda::BackwardLayout& b = layout->backward;
    const int64_t v = recipe.v, kept = v - layout->first_kept;
    const bool bf16 = recipe.dtype == kernel::DType::kBf16, in_place = b.ahead > 0;
    const CudaWay at_once = KeepingSome(problem, nullptr, kernel::CudaPath::kBest);
    reached["nothing saved"] += kept == 0 ? 1 : 0;
    reached["a part saved"] += kept > 0 && kept < v ? 1 : 0;
    reached["all saved"] += v > 0 && kept == v ? 1 : 0;
    reached["consumed"] += in_place ? 1 : 0;
    reached["as logits"] += bf16 && kept > 0 && !layout->exponents ? 1 : 0;
    reached["chunks of 384"] += way.chunk_columns == 384 ? 1 : 0;
    reached["chunks of 2304"] += way.chunk_columns == 2304 ? 1 : 0;
    reached["several chunks"] += layout->planes == 1 && v > b.direct_chunk ? 1 : 0;
    reached["a stretch in parts"] += layout->planes == 1 && b.has_sums ? 1 : 0;
    reached["stretches together"] += b.at_once > 1 ? 1 : 0;
    reached["a sweep"] += b.sweeps ? 1 : 0;
    reached["two buffers"] += !in_place && b.kept.two && kept > b.kept.most ? 1 : 0;
    reached["beside products in place"] += in_place && b.kept.two && kept > b.end_columns ? 1 : 0;
    reached["an end of two chunks"] += in_place && b.end_columns > b.kept.most ? 1 : 0;
    reached["totals behind"] += b.totals_behind ? 1 : 0;
    reached["blocks and short chunks"] +=
        bf16 && at_once.execution.block_rows > 0 && recipe.n > 64 && v > 384 &&
                at_once.execution.kept_form == kernel::KeptForm::kDefault && at_once.chunk_columns > 0
            ? 1
            : 0;
  }
  for (const auto& [way, cases] : reached) {
    RecordProperty(way, cases);
    EXPECT_GE(cases, 10) << way;
  }
}

// The problems that corpus_once brings along, in its ways. Fails if they do not come to what they are
// there for: a sweep of either hidden size in several stretches, totals behind d_logits, two buffers,
// d_logits beside products in place, an end of two chunks, several blocks of rows; or if none is small
// enough for racecheck.
TEST(CudaWays, ProblemsForTheSanitizerReachWhatIsSaid) {
  int sweeps = 0, behind = 0, two = 0, in_place = 0, ends = 0, ring = 0, blocks = 0, small = 0;
  for (const OwnProblem& own : kProblems) {
    const char* const line = own.recipe;
    Recipe recipe;
    std::string error;
    ASSERT_TRUE(Parse(line, &recipe, &error)) << line << ": " << error;
    kernel::Problem problem;
    problem.hidden = {nullptr, recipe.dtype, 2, {recipe.n, recipe.h}, {recipe.h, 1}};
    problem.weight = {nullptr, recipe.dtype, 2, {recipe.v, recipe.h}, {recipe.h, 1}};
    const kernel::Results results = EveryResult(problem, recipe.fp32_grads);
    small += recipe.v * recipe.h * 4 < (1 << 20) ? 1 : 0;
    for (const Way& way : kWays) {
      if (own.chunk_columns > 0 && way.chunk_columns != own.chunk_columns) continue;
      const auto layout = kernel::cuda::MakeLayout(problem, results,
                                                   {.bytes = way.logits_bytes,
                                                    .form = way.form,
                                                    .consumed = way.consumed || way.one_call,
                                                    .chunk_columns = way.chunk_columns});
      ASSERT_TRUE(layout.has_value());
      const kernel::cuda::BackwardLayout& b = layout->backward;
      EXPECT_EQ(layout->first_kept, 0) << line << ", " << way.name;
      sweeps += b.sweeps && recipe.v > layout->stretch ? 1 : 0;
      behind += b.totals_behind ? 1 : 0;
      two += b.ahead == 0 && b.kept.two && recipe.v > b.kept.most ? 1 : 0;
      in_place += b.ahead > 0 && b.kept.two && recipe.v > b.end_columns ? 1 : 0;
      ends += b.ahead > 0 && b.end_columns > b.kept.most ? 1 : 0;
      ring += b.ahead > 0 && b.kept.most >= kRingColumns && recipe.v > 2 * b.kept.most ? 1 : 0;
      const kernel::Execution execution = {
          .device = kernel::Device::kCuda, .block_rows = way.block_rows, .kept_form = way.form};
      const int64_t rows = kernel::cuda::RowsOfBlock(problem, results, execution);
      blocks += way.block_rows > 0 && rows < recipe.n ? 1 : 0;
    }
  }
  EXPECT_GE(sweeps, 4);
  EXPECT_GE(behind, 1);
  EXPECT_GE(two, 2);
  EXPECT_GE(in_place, 2);
  EXPECT_GE(ends, 1);
  EXPECT_GE(ring, 1);
  EXPECT_GE(blocks, 2);
  EXPECT_GE(small, 4);
}

// Fails if a row alone has another form of keeping than in its batch, since its gradients then have
// other bits, or if one of the two forms is in no case of production.
TEST(CudaWays, TheFormIsThatOfTheWeight) {
  int logits = 0;
  for (int64_t h = 1; h < 50; ++h) {
    kernel::Problem one;
    one.hidden = {nullptr, kernel::DType::kBf16, 2, {1, h}, {h, 1}};
    one.weight = {nullptr, kernel::DType::kBf16, 2, {3, h}, {h, 1}};
    kernel::Problem batch = one;
    batch.hidden.shape[0] = 777;
    const auto form = [](const kernel::Problem& problem) {
      return SavingSome(problem, nullptr, kernel::CudaPath::kBest).execution.kept_form;
    };
    EXPECT_EQ(form(one), form(batch)) << h;
    logits += form(one) == kernel::KeptForm::kLogits ? 1 : 0;
  }
  EXPECT_GT(logits, 10);
  EXPECT_LT(logits, 25);
}

}  // namespace
}  // namespace plumbline::fuzz

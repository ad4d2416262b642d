// SPDX-License-Identifier: Apache-2.0
//
// What `plumb check` says of a dump, to somebody who has never read its page.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "fuzz/check/consistency_report.h"
#include "tests/fuzz/check/check_program.h"
#include "tests/fuzz/check/dump_file.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using testing::FlatDump;
using testing::Floats;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Same;
using ::testing::StartsWith;
using testing::WriteDump;

class CheckReport : public testing::CheckProgram {};

// Fails if a table without a row is printed: a header alone reads as a check that was cut.
TEST(ConsistencyText, HasATableOnlyWhereALineSaysSomething) {
  ConsistencyReport report;
  report.checks.resize(1);
  report.checks[0].verdict = ConsistencyVerdict::kHolds;
  report.checks[0].tolerance = 1;
  EXPECT_EQ(ConsistencyText(report), "");
  report.checks[0].tolerance = 0.5;
  EXPECT_THAT(ConsistencyText(report), StartsWith("outputs against each other"));
}

// Fails if the first line is not the verdict with its cause in words and what it explains, or if a
// person is not told whose bounds hold.
TEST_F(CheckReport, TheFirstLineIsTheCause) {
  SafeTensors dump = FlatDump(8, 37, 8);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0);
  EXPECT_THAT(out_, AllOf(StartsWith("nothing wrong in 24 elements of logprob, entropy, lse\n"),
                          HasSubstr("no contract is given: an error is allowed if any kernel")));
  EXPECT_EQ(Run("d.safetensors --contract fp32"), 0);
  EXPECT_THAT(out_, Not(HasSubstr("no contract is given")));
  for (int64_t i = 0; i < 8; ++i) {
    dump.tensors["logprob"].SetFloat(i, -dump.tensors["logprob"].GetFloat(i));
  }
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_,
              StartsWith("WRONG: logprob has the opposite sign (a loss of each row?) (8 of 8 rows; "
                         "explains logprob)\n"));
  dump.tensors["logprob"].SetFloat(3, 77);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_, StartsWith("WRONG: logprob (8 of 8 rows); none of the mistakes that are tried "
                               "explains it\n"));
}

// Fails if NaN has a sign, which printf gives it.
TEST_F(CheckReport, NaNHasNoSign) {
  SafeTensors dump = FlatDump(4, 37, 8);
  dump.tensors["logprob"].SetFloat(1, -std::numeric_limits<float>::quiet_NaN());
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_, AllOf(HasSubstr("logprob[1] = nan where -3.61091791 ± "), Not(HasSubstr("-nan"))));
}

// Fails if a gradient near its bound by rounding alone is not marked, or one in fp32 is.
TEST_F(CheckReport, RoundingTo16BitsIsMarked) {
  SafeTensors dump = FlatDump(4, 37, 8);
  dump.tensors["grad_logprob"] = Same(4, 1);
  dump.tensors["grad_hidden"] = HostTensor::Zeros(kernel::DType::kBf16, {4, 8});
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_;
  EXPECT_THAT(out_, HasSubstr("* of 16 bits: rounding the output alone makes up to 1\n"));
  dump.tensors["grad_hidden"] = HostTensor::Zeros(kernel::DType::kF32, {4, 8});
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_;
  EXPECT_THAT(out_, Not(HasSubstr("of 16 bits")));
}

// Fails if the commonest mistake of a reduction is not named.
TEST_F(CheckReport, ASumIsNoMean) {
  SafeTensors dump = FlatDump(10, 8, 2);
  dump.tensors["labels"].SetInt(3, -100);
  dump.tensors["logprob"].SetFloat(3, 0);
  dump.metadata["reduction"] = "mean";
  const float mean = 2.07944154F;  // ln 8
  const std::pair<float, const char*> losses[] = {
      {9 * mean, "WRONG: loss is the sum over the rows, not their mean"},
      {0.9F * mean, "WRONG: loss was divided by all rows, ignored ones too"},
      {-mean, "WRONG: loss has the opposite sign"},
      {3, "WRONG: loss is in bits"}};
  for (const auto& [loss, words] : losses) {
    dump.tensors["loss"] = Floats({}, {loss});
    WriteDump(work_ / "d.safetensors", dump);
    EXPECT_EQ(Run("d.safetensors"), 1) << loss;
    EXPECT_THAT(out_, StartsWith(words)) << loss;
  }
  dump.tensors["loss"] = Floats({}, {mean});
  dump.metadata["reduction"] = "sum";
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_, StartsWith("WRONG: loss is the mean over the rows, not their sum"));
  dump.tensors["loss"] = Floats({}, {1.234F});
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_, StartsWith("WRONG: loss; none of the mistakes"));
}

// One row of four logits 0, 0.3, 0.6, 0.9 beside products of 2^20 that cancel: bounds of half a nat. An
// entropy of 1.42 is within them, and above ln 4. Fails if outputs are not compared with each other, if
// what that proves is not the first line and the status, or if the JSON does not have it.
TEST_F(CheckReport, OutputsThatContradictEachOther) {
  SafeTensors dump = FlatDump(2, 4, 3);
  dump.tensors["hidden"] = Floats({2, 3}, {1024, 1024, 1, 1024, 1024, 1});
  dump.tensors["weight"] =
      Floats({4, 3}, {1024, -1024, 0, 1024, -1024, 0.3F, 1024, -1024, 0.6F, 1024, -1024, 0.9F});
  double s = 0, mean = 0;
  for (const float z : {0.0F, 0.3F, 0.6F, 0.9F}) {
    s += std::exp(z);
    mean += z * std::exp(z);
  }
  const double lse = std::log(s);
  dump.tensors["lse"] = Same(2, static_cast<float>(lse));
  dump.tensors["logprob"] = Floats({2}, {static_cast<float>(-lse), static_cast<float>(0.3F - lse)});
  dump.tensors["entropy"] = Same(2, static_cast<float>(lse - mean / s));
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --target host --json"), 0) << out_;
  const auto verdict = [&] {
    const Json line = LastLine();
    return line.Find("dumps")->as_array()->at(0).Find("consistency")->Dump();
  };
  EXPECT_THAT(verdict(), AllOf(HasSubstr("entropy-range"), HasSubstr("holds")));
  dump.tensors["entropy"].SetFloat(1, 1.42F);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --target host --json"), 1) << out_;
  EXPECT_THAT(verdict(), HasSubstr("wrong"));
  EXPECT_EQ(Run("d.safetensors --target host"), 1);
  EXPECT_THAT(out_, AllOf(StartsWith("WRONG: logprob[1] = "), HasSubstr("are of no one distribution"),
                          HasSubstr("verdict=findings cases=1 judged=1 findings=1 status=1")));
}

}  // namespace
}  // namespace plumbline::fuzz

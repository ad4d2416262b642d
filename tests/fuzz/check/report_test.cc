// SPDX-License-Identifier: Apache-2.0
//
// What `plumb check` says of a dump, to somebody who has never read its page.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

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

}  // namespace
}  // namespace plumbline::fuzz

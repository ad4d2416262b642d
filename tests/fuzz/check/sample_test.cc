// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "oracle/verdict/verdict.h"
#include "tests/fuzz/check/dump_file.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using testing::FlatDump;
using testing::Floats;
using ::testing::IsSupersetOf;
using testing::Same;

class DumpSampleTest : public ::testing::Test {
 protected:
  std::unique_ptr<Dump> Open(const SafeTensors& content) {
    std::string error;
    auto dump = OpenDump(testing::WriteDump(work_ / "d.safetensors", content), &error);
    EXPECT_TRUE(dump) << error;
    return dump;
  }
  testing::Workplace work_;
};

// Fails if a row that looks wrong is left out with some seed.
TEST_F(DumpSampleTest, SuspiciousRowsAreAlwaysAmongThem) {
  SafeTensors content = FlatDump(1000, 5, 2);
  content.tensors["logprob"].SetFloat(101, 1e-7F);  // positive
  content.tensors["logprob"].SetFloat(102, -50);    // the least
  content.tensors["entropy"].SetFloat(103, -1e-7F);
  content.tensors["lse"].SetFloat(104, NAN);
  content.tensors["lse"].SetFloat(105, 80);  // the largest
  content.tensors["grad_entropy"] = Same(1000, 1);
  content.tensors["grad_hidden"] = HostTensor::Zeros(DType::kF32, {1000, 2});
  content.tensors["grad_hidden"].SetFloat(2 * 106 + 1, INFINITY);
  content.tensors["labels"].SetInt(107, -100);
  content.tensors["labels"].SetInt(108, 5);
  const auto dump = Open(content);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<int64_t> rows = ChooseRows(*dump, 24, seed);
    EXPECT_EQ(rows.size(), 24u);
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    EXPECT_THAT(rows, IsSupersetOf({0, 999, 101, 102, 103, 104, 105, 106, 107, 108}));
  }
}

// Fails if the seed is ignored, or the same seed gives other rows.
TEST_F(DumpSampleTest, SeedDecides) {
  const auto dump = Open(FlatDump(1000, 5, 2));
  EXPECT_EQ(ChooseRows(*dump, 32, 7), ChooseRows(*dump, 32, 7));
  EXPECT_NE(ChooseRows(*dump, 32, 7), ChooseRows(*dump, 32, 8));
}

// Fails if only the first rows are sampled of a dump that is wrong everywhere.
TEST_F(DumpSampleTest, HalfIsRandomWhereAllIsSuspicious) {
  SafeTensors content = FlatDump(4000, 5, 1);
  content.tensors["logprob"] = Same(4000, 1);
  const std::vector<int64_t> rows = ChooseRows(*Open(content), 64, 1);
  EXPECT_GE(std::count_if(rows.begin(), rows.end(), [](int64_t r) { return r >= 64; }), 24);
}

// Fails if a count of 0, or one above the number of rows, leaves a row out.
TEST_F(DumpSampleTest, AllRowsWhereThereAreFew) {
  const auto dump = Open(FlatDump(6, 5, 2));
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(ChooseRows(*dump, 0, 1), all);
  EXPECT_EQ(ChooseRows(*dump, 6, 1), all);
  EXPECT_EQ(ChooseRows(*dump, 64, 1), all);
  EXPECT_EQ(ChooseRows(*dump, 1, 1), std::vector<int64_t>{0});
}

// Fails if a row is gathered from the wrong place, if a scalar is gathered, or if loss and grad_weight
// are judged on a part of the rows.
TEST_F(DumpSampleTest, GathersTheRowsAsked) {
  SafeTensors content = FlatDump(6, 5, 2);
  for (int64_t i = 0; i < 12; ++i) content.tensors["hidden"].SetFloat(i, static_cast<float>(i));
  content.tensors["logprob"] =
      Floats({6}, {-0.5F, -1, -1.5F, -2, -2.5F, -3}, DType::kBf16);  // exact in bf16
  content.tensors["temperature"] = Floats({}, {2});
  content.tensors["grad_logprob"] = Floats({6}, {0, 1, 2, 3, 4, 5});
  content.tensors["grad_weight"] = HostTensor::Zeros(DType::kBf16, {5, 2});
  const auto dump = Open(content);
  const DumpSample sample(*dump, {1, 4});
  EXPECT_FALSE(sample.all());
  const kernel::Problem& p = sample.problem();
  EXPECT_EQ(p.rows(), 2);
  EXPECT_EQ(oracle::ReadElement(p.hidden, 0, 1), 3);
  EXPECT_EQ(oracle::ReadElement(p.hidden, 1, 0), 8);
  EXPECT_EQ(oracle::ReadInt(p.labels, 1), 4);
  EXPECT_EQ(oracle::ReadElement(*p.grad_logprob, 1, 0), 4);
  EXPECT_EQ(p.temperature->rank, 0);
  EXPECT_EQ(p.weight.data, dump->problem.weight.data);  // the mapping itself
  ASSERT_TRUE(sample.given().logprob);
  EXPECT_EQ(sample.given().logprob->dtype, DType::kF32);
  EXPECT_EQ(oracle::ReadElement(kernel::AsConst(*sample.given().logprob), 1, 0), -2.5);
  EXPECT_FALSE(sample.given().grad_weight);
  EXPECT_FALSE(sample.Wanted().grad_weight);
  EXPECT_TRUE(sample.Wanted().grad_hidden);

  const DumpSample whole(*dump, ChooseRows(*dump, 0, 1));
  EXPECT_TRUE(whole.all());
  EXPECT_TRUE(whole.given().grad_weight);
  EXPECT_EQ(whole.problem().hidden.data, dump->problem.hidden.data);
}

}  // namespace
}  // namespace plumbline::fuzz

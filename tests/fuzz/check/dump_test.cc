// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/cases/file.h"
#include "oracle/verdict/verdict.h"
#include "tests/fuzz/check/dump_file.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;
using oracle::Output;
using testing::FlatDump;
using testing::Floats;
using ::testing::HasSubstr;
using testing::Same;

class DumpTest : public ::testing::Test {
 protected:
  std::unique_ptr<Dump> Open(const SafeTensors& content) {
    return OpenDump(testing::WriteDump(work_ / "d.safetensors", content), &error_);
  }
  testing::Workplace work_;
  std::string error_;
};

// Fails if a few bytes of header make the oracle allocate terabytes: weight has a shape and no data.
TEST_F(DumpTest, RefusesAVocabularyWithoutBytes) {
  SafeTensors content = FlatDump(2, 5, 0);
  content.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {int64_t{1} << 45, 0});
  EXPECT_FALSE(Open(content));
  EXPECT_THAT(error_, HasSubstr("V = 35184372088832 with H = 0"));
  content.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {100, 0});
  EXPECT_TRUE(Open(content)) << error_;
}

// Fails if a tensor lands under another's name, is copied wrongly, or an option keeps its default.
TEST_F(DumpTest, HoldsWhatTheFileHolds) {
  SafeTensors content = FlatDump(3, 5, 2);
  content.tensors["hidden"].SetFloat(3, 0.25F);  // row 1, column 1
  content.tensors["temperature"] = Floats({}, {2});
  content.tensors["grad_entropy"] = Same(3, 0.5F);
  content.tensors["grad_hidden"] = HostTensor::Zeros(DType::kBf16, {3, 2});
  content.tensors["notes"] = Same(1, 0);
  content.metadata = {{"ignore_index", "2"}, {"reduction", "none"}, {"model", "any"}};
  const auto dump = Open(content);
  ASSERT_TRUE(dump) << error_;
  const kernel::Problem& p = dump->problem;
  EXPECT_EQ(p.rows(), 3);
  EXPECT_EQ(p.vocab(), 5);
  EXPECT_EQ(p.hidden_size(), 2);
  EXPECT_EQ(oracle::ReadElement(p.hidden, 1, 1), 0.25);
  EXPECT_EQ(oracle::ReadElement(p.weight, 4, 1), 1);
  EXPECT_EQ(oracle::ReadInt(p.labels, 2), 2);
  EXPECT_EQ(oracle::ReadElement(*p.temperature, 0, 0), 2);
  EXPECT_EQ(oracle::ReadElement(*p.grad_entropy, 2, 0), 0.5);
  EXPECT_FALSE(p.grad_logprob);
  EXPECT_EQ(p.ignore_index, 2);
  EXPECT_EQ(dump->counted, 2);
  EXPECT_TRUE(dump->output(Output::kLse));
  EXPECT_TRUE(dump->output(Output::kGradHidden));
  EXPECT_FALSE(dump->output(Output::kGradWeight));
  EXPECT_EQ(dump->unknown, std::vector<std::string>{"notes"});
}

// Fails if a padded weight, or its gradient, is copied, if padding is not where the vocabulary ends, or
// if a gradient without padding is cut as well.
TEST_F(DumpTest, PaddingIsCutInPlace) {
  SafeTensors content = FlatDump(3, 8, 2);
  content.tensors["grad_logprob"] = Same(3, 1);
  content.tensors["grad_weight"] = HostTensor::Zeros(DType::kF32, {8, 2});
  content.tensors["grad_weight"].SetFloat(6 * 2 + 1, 0.5F);
  content.metadata["vocabulary_size"] = "5";
  const auto dump = Open(content);
  ASSERT_TRUE(dump) << error_;
  EXPECT_EQ(dump->problem.vocab(), 5);
  EXPECT_EQ(dump->weight_rows, 8);
  const std::span<const std::byte> file = dump->file->bytes();
  const auto inside = [&](const kernel::ConstTensor& t) {
    const auto* const data = static_cast<const std::byte*>(t.data);
    return data >= file.data() && data < file.data() + file.size();
  };
  EXPECT_TRUE(inside(dump->problem.weight) && inside(*dump->output(Output::kGradWeight)));
  ASSERT_TRUE(dump->grad_padding);
  EXPECT_EQ(dump->grad_padding->shape[0], 3);
  EXPECT_EQ(oracle::ReadElement(*dump->grad_padding, 1, 1), 0.5);
  content.tensors["grad_weight"] = HostTensor::Zeros(DType::kF32, {5, 2});
  const auto cut = Open(content);
  ASSERT_TRUE(cut) << error_;
  EXPECT_FALSE(cut->grad_padding);
}

// Fails if the reduction is not read, or its scalar gradient refused.
TEST_F(DumpTest, TakesAReduction) {
  SafeTensors content = FlatDump(3, 5, 2);
  content.tensors["loss"] = Floats({}, {1});
  content.tensors["grad_logprob"] = Floats({}, {1});
  content.metadata["reduction"] = "mean";
  const auto dump = Open(content);
  ASSERT_TRUE(dump) << error_;
  EXPECT_EQ(dump->problem.reduction, Reduction::kMean);
  EXPECT_TRUE(dump->HasOutputs());
}

// Trainers store a scalar as one element. Fails if it is refused, or is taken for one value a row.
TEST_F(DumpTest, OneElementIsAScalar) {
  SafeTensors content = FlatDump(3, 5, 2);
  content.tensors["temperature"] = Floats({1}, {2});
  content.tensors["loss"] = Floats({1}, {1});
  content.tensors["grad_logprob"] = Floats({1}, {1});
  content.metadata["reduction"] = "sum";
  const auto dump = Open(content);
  ASSERT_TRUE(dump) << error_;
  EXPECT_EQ(dump->problem.temperature->rank, 0);
  EXPECT_EQ(oracle::ReadElement(*dump->problem.temperature, 0, 0), 2);
  EXPECT_EQ(dump->problem.grad_logprob->rank, 0);
  content.tensors["temperature"] = Floats({1}, {-2});
  EXPECT_FALSE(Open(content));
  EXPECT_THAT(error_, HasSubstr("temperature: -2"));
  // With reduction none one upstream gradient is not three.
  content = FlatDump(3, 5, 2);
  content.tensors["grad_logprob"] = Floats({1}, {1});
  EXPECT_FALSE(Open(content));
  EXPECT_THAT(error_, HasSubstr("grad_logprob"));
}

// Fails if a stored case is no dump, or its broadcast gradient is read element by element.
TEST_F(DumpTest, AStoredCaseIsADump) {
  Case c;
  c.problem.hidden = HostTensor::Zeros(DType::kF32, {2, 1});
  c.problem.weight = HostTensor::Zeros(DType::kF32, {3, 1});
  c.problem.labels = HostTensor::Zeros(DType::kI32, {2});
  c.problem.grad_logprob = Floats({2}, {4, 5});
  c.problem.ignore_index = -7;
  c.problem.layout.grad_stride = 0;
  c.problem.wanted.lse = false;
  ASSERT_TRUE(WriteCase(work_ / "c.safetensors", c, &error_)) << error_;
  const auto dump = OpenDump(work_ / "c.safetensors", &error_);
  ASSERT_TRUE(dump) << error_;
  EXPECT_EQ(dump->problem.ignore_index, -7);
  EXPECT_EQ(oracle::ReadElement(*dump->problem.grad_logprob, 1, 0), 4);
  EXPECT_FALSE(dump->wanted.lse);
  EXPECT_TRUE(dump->wanted.grad_hidden);
}

// Fails if a refusal does not name the tensor or the metadata, and its value.
TEST_F(DumpTest, RefusesWhatDisagrees) {
  struct Refused {
    std::function<void(SafeTensors&)> spoil;
    std::vector<std::string> words;
  };
  const std::vector<Refused> refused = {
      {[](auto& d) { d.tensors.erase("weight"); }, {"\"weight\"", "missing"}},
      {[](auto& d) { d.tensors.erase("labels"); }, {"\"labels\"", "missing"}},
      {[](auto& d) {
         d.tensors["lm_head"] = d.tensors["weight"];
         d.tensors.erase("weight");
       },
       {"\"weight\" is missing",
        "the file holds entropy [3], hidden [3, 2], labels [3], lm_head [5, 2]"}},
      {[](auto& d) { d.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {2, 5}); },
       {"weight: shape [2, 5], wanted is [V, 2]", "weight.T.contiguous()"}},
      {[](auto& d) { d.tensors["labels"] = HostTensor::Zeros(DType::kI64, {1, 3}); },
       {"labels: shape [1, 3]; flatten batch and sequence: [3]"}},
      {[](auto& d) { d.tensors["logprob"] = HostTensor::Zeros(DType::kF32, {3, 1}); },
       {"logprob: shape [3, 1]", "flatten batch and sequence: [3]"}},
      {[](auto& d) { d.tensors["loss"] = Same(3, 1); },
       {"loss: shape [3] is one value a row", "store -loss as logprob"}},
      {[](auto& d) { d.tensors["labels"] = Same(3, 0); }, {"labels", "fp32"}},
      {[](auto& d) { d.tensors["labels"] = HostTensor::Zeros(DType::kI64, {4}); }, {"labels", "4"}},
      {[](auto& d) { d.tensors["hidden"] = HostTensor::Zeros(DType::kI32, {3, 2}); },
       {"hidden", "int32"}},
      {[](auto& d) { d.tensors["hidden"] = HostTensor::Zeros(DType::kBf16, {6}); }, {"hidden", "rank"}},
      {[](auto& d) { d.tensors["weight"] = HostTensor::Zeros(DType::kF16, {5, 2}); },
       {"weight", "fp16", "bf16"}},
      {[](auto& d) { d.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {5, 3}); }, {"weight", "3"}},
      {[](auto& d) { d.tensors["temperature"] = Same(2, 1); }, {"temperature", "2"}},
      {[](auto& d) { d.tensors["temperature"] = Floats({}, {-1}); }, {"temperature", "-1"}},
      {[](auto& d) { d.tensors["temperature"] = Floats({}, {NAN}); }, {"temperature", "nan"}},
      {[](auto& d) { d.tensors["grad_logprob"] = Floats({}, {1}); }, {"grad_logprob", "rank"}},
      {[](auto& d) { d.tensors["grad_entropy"] = Same(4, 1); }, {"grad_entropy", "4"}},
      {[](auto& d) { d.tensors["logprob"] = Same(4, 1); }, {"logprob", "[4]", "[3]"}},
      {[](auto& d) { d.tensors["entropy"] = HostTensor::Zeros(DType::kI64, {3}); },
       {"entropy", "int64"}},
      {[](auto& d) { d.tensors["loss"] = Floats({}, {1}); }, {"loss", "reduction"}},
      {[](auto& d) { d.tensors["grad_weight"] = HostTensor::Zeros(DType::kBf16, {5, 2}); },
       {"grad_weight", "grad_logprob"}},
      {[](auto& d) {
         d.tensors["grad_entropy"] = Same(3, 1);
         d.tensors["grad_weight"] = HostTensor::Zeros(DType::kBf16, {4, 2});
       },
       {"grad_weight", "4"}},
      {[](auto& d) {
         d.tensors["grad_entropy"] = Same(3, 1);
         d.tensors["grad_hidden"] = HostTensor::Zeros(DType::kF16, {3, 2});
       },
       {"grad_hidden", "fp16"}},
      {[](auto& d) { d.metadata["ignore_index"] = "-100.5"; }, {"ignore_index", "-100.5"}},
      {[](auto& d) { d.metadata["ignore_index"] = ""; }, {"ignore_index"}},
      {[](auto& d) { d.metadata["reduction"] = "avg"; }, {"reduction", "avg"}},
      {[](auto& d) { d.metadata["case"] = "{"; }, {"case"}},
  };
  for (size_t i = 0; i < refused.size(); ++i) {
    SafeTensors content = FlatDump(3, 5, 2);
    refused[i].spoil(content);
    error_.clear();
    EXPECT_FALSE(Open(content)) << i;
    for (const std::string& word : refused[i].words) EXPECT_THAT(error_, HasSubstr(word)) << i;
  }
}

// A view of a mapping must be aligned: a header of odd length shifts all data by one byte. Fails if
// such a file is read.
TEST_F(DumpTest, RefusesMisalignedData) {
  const std::string header = R"({"hidden":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]},)"
                             R"("labels":{"dtype":"I32","shape":[1],"data_offsets":[2,6]},)"
                             R"("weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[6,8]}})";
  for (const size_t padding : {0, 1, 2, 3}) {
    const std::string padded = header + std::string(padding, ' ');
    std::vector<std::byte> bytes(8 + padded.size() + 8);
    bytes[0] = static_cast<std::byte>(padded.size());
    for (size_t i = 0; i < padded.size(); ++i) bytes[8 + i] = static_cast<std::byte>(padded[i]);
    const bool aligned = (padded.size() + 2) % 4 == 0;
    error_.clear();
    const auto dump = OpenDump(testing::WriteBytes(work_ / "m", bytes), &error_);
    EXPECT_EQ(dump != nullptr, aligned) << padded.size() << error_;
    if (!aligned) {
      EXPECT_THAT(error_, HasSubstr("not aligned"));
    }
  }
}

// Fails if a cut file is read beyond its end, or opened at all.
TEST_F(DumpTest, RefusesEveryTruncation) {
  const std::vector<std::byte> whole = WriteSafeTensors(FlatDump(2, 3, 2));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(OpenDump(testing::WriteBytes(work_ / "cut", cut), &error_)) << size;
  }
}

// Fails if a pipe is waited for, or a folder mapped.
TEST_F(DumpTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo((work_ / "pipe").c_str(), 0600), 0);
  for (const auto& path : {work_ / "pipe", work_.path(), work_ / "absent"}) {
    error_.clear();
    EXPECT_FALSE(OpenDump(path, &error_));
    EXPECT_THAT(error_, HasSubstr(path.string()));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

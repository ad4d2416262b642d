// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target/contract_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fuzz/target/contracts.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Contract, oracle::Output, oracle::StepDType;
using ::testing::HasSubstr;

Contract Said(const std::string& words) {
  std::string error;
  const auto description = DescriptionOf(words, &error);
  EXPECT_TRUE(description) << words << ": " << error;
  return description ? description->description.contract : Contract();
}

std::string WhyNot(const std::string& words) {
  std::string error;
  EXPECT_FALSE(DescriptionOf(words, &error)) << words;
  return error;
}

// Fails if a word stands for other keys than CONTRACTS.md says.
TEST(ContractWords, StandForKeys) {
  const Contract c = Said(
      "matmul=ampere,split_k=8/bf16,logits=bf16,scaled_logits=fp16,softmax=unshifted,exp=ex2.approx,"
      "log=2.5,backward=kept,outputs=input,outputs.lse=fp32,grad_accumulator=fp16/512/4096,"
      "filter=2**-12,probabilities=bf16,d_logits=fp32,upstream_entropy=fp16");
  EXPECT_EQ(c.accumulate, oracle::Accumulate::kTensorCore);
  EXPECT_EQ(c.block, 8);
  EXPECT_EQ(c.extra_bits, 1);
  EXPECT_EQ(c.split, 8);
  EXPECT_EQ(c.partials, StepDType(DType::kBf16));
  EXPECT_EQ(c.logits, StepDType(DType::kBf16));
  EXPECT_EQ(c.scaled_logits, StepDType(DType::kF16));
  EXPECT_TRUE(c.plain_logprob && c.plain_entropy && c.recompute_same_bits);
  EXPECT_EQ(c.exp_error, 4);
  EXPECT_EQ(c.log_error_absolute, 2.5);
  EXPECT_EQ(c.log_error_relative, 2.5);
  EXPECT_EQ(c.outputs[static_cast<size_t>(Output::kEntropy)], StepDType::OfHidden());
  EXPECT_EQ(c.outputs[static_cast<size_t>(Output::kLse)], StepDType());
  EXPECT_EQ(c.outputs[static_cast<size_t>(Output::kGradHidden)], StepDType());
  EXPECT_EQ(c.accumulator, DType::kF16);
  EXPECT_EQ(c.vocab_chunk, 512);
  EXPECT_EQ(c.row_chunk, 4096);
  EXPECT_EQ(c.filter, 0x1p-12);
  EXPECT_EQ(c.probabilities, StepDType(DType::kBf16));
  EXPECT_EQ(c.d_logits, DType::kF32);
  EXPECT_EQ(c.upstream_entropy, StepDType(DType::kF16));
  EXPECT_EQ(Said("matmul=tf32").input_rounding, 0x1p-11);
  EXPECT_EQ(Said("grad_accumulator=bf16").vocab_chunk, 0);
}

// Fails if words after a name begin from nothing, or a name after words is taken for one.
TEST(ContractWords, FollowANamedContract) {
  const Contract c = Said("pytorch-eager,logits=fp32");
  EXPECT_TRUE(c.log_softmax_backward);
  EXPECT_EQ(c.logits, StepDType());
  EXPECT_EQ(c.log_probs, StepDType::OfHidden());
  EXPECT_EQ(c.logits.For(DType::kBf16), std::nullopt);
  EXPECT_EQ(c.log_probs.For(DType::kF16), DType::kF16);
  EXPECT_EQ(c.log_probs.For(DType::kF32), std::nullopt);
  EXPECT_THAT(WhyNot("logits=bf16,pytorch-eager"), HasSubstr("'pytorch-eager' is no WORD=VALUE"));
}

// Fails if a wrong word or value is taken, or refused without its name.
TEST(ContractWords, AreRefusedByName) {
  EXPECT_THAT(WhyNot("matmul=int8"), HasSubstr("matmul=int8: there are fp32, tensor_core, hopper"));
  EXPECT_THAT(WhyNot("exp=fast"), HasSubstr("exp=fast: there are ex2.approx, or a number"));
  EXPECT_THAT(WhyNot("logits=fp8"), HasSubstr("logits"));
  EXPECT_THAT(WhyNot("logitz=bf16"), HasSubstr("logitz"));
  EXPECT_THAT(WhyNot("split_k=0"), HasSubstr("split_k=0: it is N or N/DTYPE"));
  EXPECT_THAT(WhyNot("grad_accumulator=bf16/1/2/3"), HasSubstr("DTYPE/COLUMNS/ROWS"));
  EXPECT_THAT(WhyNot("partials=bf16"), HasSubstr("with a split of at least 2"));
  EXPECT_THAT(WhyNot("scaled_logits=bf16,scale=after"), HasSubstr("scale"));
  EXPECT_THAT(WhyNot("filter=2"), HasSubstr("filter"));
  EXPECT_THAT(WhyNot("=bf16"), HasSubstr("is no WORD=VALUE"));
}

// Fails if a target held to words loses them in its name, by which its cases are replayed.
TEST(ContractWords, AreAPartOfATargetsName) {
  const auto [target, contract] = SplitTarget("host@matmul=fp32,logits=bf16");
  EXPECT_EQ(target, "host");
  EXPECT_EQ(contract, "matmul=fp32,logits=bf16");
  EXPECT_EQ(HeldTo("host", "logits=bf16"), "host@logits=bf16");
}

}  // namespace
}  // namespace plumbline::fuzz

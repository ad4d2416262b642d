// SPDX-License-Identifier: Apache-2.0
//
// Mistakes are made on purpose on the real input, by host on changed inputs or by a mutant. The
// diagnosis must name each mistake and no other.

#include "fuzz/check/diagnosis.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "fuzz/target/target.h"
#include "oracle/verdict/verdict.h"
#include "tests/fuzz/support/real_input.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;
using ::testing::AllOf;
using testing::Answers;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Diagnosis : public ::testing::Test {
 protected:
  void Run(const std::string& name, const kernel::Problem& problem) {
    std::string error;
    const auto target = LoadTarget(name, &error);
    ASSERT_TRUE(target) << error;
    description_ = target->description();
    ASSERT_EQ(target->Run(problem, results_).status, RunStatus::kOk);
  }
  std::vector<std::string> Sentences() {
    JudgeDumpOptions options;
    options.arbiter_cost = 0;
    const DumpVerdict verdict = JudgeDump(sample_, results_, description_, options);
    wrong_ = verdict.wrong;
    std::vector<std::string> sentences;
    explains_.clear();
    for (const auto& d : Diagnose(sample_, results_, description_.contract, verdict, options)) {
      sentences.push_back(d.Sentence());
      explains_.push_back(d.explains);
    }
    return sentences;
  }

  std::unique_ptr<Dump> dump_ = testing::OpenRealInput();
  DumpSample sample_{*dump_, ChooseRows(*dump_, 0, 0)};
  Answers answers_{sample_};
  kernel::Results results_ = answers_.results();
  Description description_;
  int64_t wrong_ = 0;
  std::vector<std::vector<oracle::Output>> explains_;
};

// Fails if a mistake is named although everything is right.
TEST_F(Diagnosis, SilentWhereNothingIsWrong) {
  Run("host", sample_.problem());
  EXPECT_THAT(Sentences(), IsEmpty());
  EXPECT_EQ(wrong_, 0);
}

// Fails if a hypothesis fits any error: the errors have no pattern and are 1 to 3 times the bound.
TEST_F(Diagnosis, SilentAboutNoise) {
  Run("host", sample_.problem());
  HostTensor& logprob = answers_.logprob();
  for (int64_t i = 0; i < logprob.size(); ++i) {
    logprob.SetFloat(i, logprob.GetFloat(i) - 2e-3F * static_cast<float>(1 + i * i % 7));
  }
  EXPECT_THAT(Sentences(), IsEmpty());
  EXPECT_GT(wrong_, 0);
}

using SlowDiagnosis = Diagnosis;

// Fails if a mutant's mistake is not named, or if another one is named with it; the last two have no
// hypothesis.
TEST_F(SlowDiagnosis, NamesTheMutants) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> named = {
      {"mutant:tail-unmasked", {"16 columns of logit 0"}},
      {"mutant:logits-rounded", {"logits were rounded to bf16"}},
      {"mutant:label-off-by-one", {"one column too far on"}},
      {"mutant:backward-temperature", {"not divided by the temperature"}},
      {"mutant:entropy-grad-dropped", {"grad_entropy was not used"}},
      {"mutant:first-grad-for-all", {"the first row's grad_logprob"}},
      {"mutant:entropy-not-rebased", {}},
      {"mutant:grad-hidden-accumulator", {}},
  };
  for (const auto& [mutant, words] : named) {
    Run(mutant, sample_.problem());
    const std::vector<std::string> sentences = Sentences();
    EXPECT_GT(wrong_, 0) << mutant;
    ASSERT_EQ(sentences.size(), words.size()) << mutant << ::testing::PrintToString(sentences);
    for (size_t i = 0; i < words.size(); ++i) EXPECT_THAT(sentences[i], HasSubstr(words[i])) << mutant;
  }
}

// These are the caller's mistakes, which no mutant makes. Fails if one of them is not named.
TEST_F(Diagnosis, NamesWhatTheCallerMistook) {
  kernel::Problem problem = sample_.problem();
  problem.temperature.reset();
  problem.grad_logprob.reset();
  problem.grad_entropy.reset();
  Run("host", problem);
  EXPECT_THAT(Sentences(), Contains(HasSubstr("the temperature was not applied")));

  // The labels are one position late: row i has the label of row i + 1.
  problem = sample_.problem();
  HostTensor labels = HostTensor::Zeros(kernel::DType::kI64, {problem.rows()});
  for (int64_t i = 0; i < problem.rows(); ++i) {
    labels.SetInt(i, oracle::ReadInt(problem.labels, std::min(i + 1, problem.rows() - 1)));
  }
  for (int64_t i = 0; i < 3; ++i) labels.SetInt(i, -100);
  problem.labels = labels.View();
  Run("host", problem);
  EXPECT_THAT(Sentences(), Contains(HasSubstr("each row was given the next row's label")));

  // The other way round, and the first row wraps: among the rows that fail it has no previous one.
  const int64_t n = problem.rows();
  for (int64_t i = 0; i < n; ++i)
    labels.SetInt(i, oracle::ReadInt(sample_.problem().labels, (i + n - 1) % n));
  Run("host", problem);
  EXPECT_THAT(Sentences(), Contains(HasSubstr("each row was given the previous row's label")));

  Run("host", sample_.problem());
  HostTensor& logprob = answers_.logprob();
  for (int64_t i = 0; i < logprob.size(); ++i) logprob.SetFloat(i, -logprob.GetFloat(i));
  EXPECT_THAT(Sentences(), ElementsAre(HasSubstr("opposite sign")));

  for (int64_t i = 0; i < logprob.size(); ++i) {
    logprob.SetFloat(i, kernel::ToFloat(kernel::ToBFloat16(-logprob.GetFloat(i))));
  }
  EXPECT_THAT(Sentences(), ElementsAre(HasSubstr("logprob was stored in bf16")));
}

// One mistake in both passes is one diagnosis. Fails if the gradients are left unexplained by it, or
// named a second time.
TEST_F(Diagnosis, OneMistakeExplainsTheGradientsToo) {
  Run("mutant:label-off-by-one", sample_.problem());
  ASSERT_EQ(Sentences().size(), 1U);
  EXPECT_THAT(explains_[0], AllOf(Contains(Output::kLogprob), Contains(Output::kGradHidden)));
}

// Fails if an entropy in bits is not named.
TEST_F(Diagnosis, NamesBits) {
  Run("host", sample_.problem());
  HostTensor& entropy = answers_.entropy();
  for (int64_t i = 0; i < entropy.size(); ++i) {
    entropy.SetFloat(i,
                     static_cast<float>(static_cast<double>(entropy.GetFloat(i)) / std::numbers::ln2));
  }
  EXPECT_THAT(Sentences(), ElementsAre(HasSubstr("in bits")));
  EXPECT_THAT(explains_[0], ElementsAre(Output::kEntropy));
}

// Padding of a vocabulary, here its last two columns, that the kernel masks and the dump's weight
// holds. Fails if it is not named with its number, or not where only logprob is in the dump.
TEST_F(Diagnosis, NamesMaskedColumns) {
  kernel::Problem problem = sample_.problem();
  const int64_t v = problem.vocab();
  problem.weight.shape[0] = v - 2;
  results_.grad_hidden.reset();
  results_.grad_weight.reset();
  for (const bool only_logprob : {false, true}) {
    if (only_logprob) {
      results_.entropy.reset();
      results_.lse.reset();
    }
    Run("host", problem);
    const std::vector<std::string> sentences = Sentences();
    ASSERT_EQ(sentences.size(), 1U);
    EXPECT_THAT(sentences[0],
                HasSubstr("the last 2 of " + std::to_string(v) + " columns are left out"));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// One row of H = 1: the logits are the weights.
OwnedProblem Row(const std::vector<float>& logits, int64_t label) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(DType::kBf16, {1, 1});
  p.hidden.SetFloat(0, 1);
  p.weight = HostTensor::Zeros(DType::kF32, {static_cast<int64_t>(logits.size()), 1});
  for (size_t v = 0; v < logits.size(); ++v) p.weight.SetFloat(static_cast<int64_t>(v), logits[v]);
  p.labels = HostTensor::Zeros(DType::kI64, {1});
  p.labels.SetInt(0, label);
  p.wanted = {false, false, false, false, false};
  return p;
}

Finding On(std::string output, int64_t row) {
  Finding f;
  f.output = std::move(output);
  f.row = row;
  f.column = 0;
  return f;
}

// Fails if the key does not name a need, which would put two causes into one bucket: each of these
// cases differs from the plain row in one thing only.
TEST(Bucket, NamesWhatDeparts) {
  const Finding f = On("logprob", 0);
  const OwnedProblem plain = Row({0, 1}, 0);
  EXPECT_EQ(BucketOf(plain, f).key, "bound:logprob N=1 V=2 H=1");
  const auto with = [&](auto change) {
    OwnedProblem p = plain;
    change(p);
    return BucketOf(p, f).key.substr(std::string("bound:logprob N=1 V=2 H=1").size());
  };
  EXPECT_EQ(with([](OwnedProblem& p) { p.reduction = kernel::Reduction::kMean; }), " mean");
  EXPECT_EQ(with([](OwnedProblem& p) { p.layout.weight_hidden_major = true; }), " hidden-major");
  EXPECT_EQ(with([](OwnedProblem& p) { p.layout.grad_stride = 0; }), " broadcast-gradient");
  EXPECT_EQ(with([](OwnedProblem& p) { p.labels.SetInt(0, 1); }), " label=last");
  EXPECT_EQ(with([](OwnedProblem& p) { p.labels.SetInt(0, -100); }), " ignored-row at=ignored");
  EXPECT_EQ(with([](OwnedProblem& p) { p.labels.SetInt(0, 2); }), " label>=V at=invalid");
  EXPECT_EQ(with([](OwnedProblem& p) { p.weight.SetFloat(1, 0); }), " ties");
  EXPECT_EQ(with([](OwnedProblem& p) { p.weight.SetFloat(1, 1 + 0x1p-10F); }), " fine-logits");
  EXPECT_EQ(with([](OwnedProblem& p) { p.weight.SetFloat(1, 200); }), " wide");
  EXPECT_EQ(with([](OwnedProblem& p) {
              p.grad_entropy = HostTensor::Zeros(DType::kF32, {1});
              p.grad_entropy->SetFloat(0, std::numeric_limits<float>::infinity());
            }),
            " k k=inf");
}

TEST(Bucket, LogitsByTheirRange) {
  const auto key = [](const std::vector<float>& logits) {
    return BucketOf(Row(logits, 0), On("entropy", 0)).key;
  };
  EXPECT_THAT(key({-1, -2}), EndsWith(" all-negative"));
  EXPECT_THAT(key({-128, -129}), EndsWith(" top<-100"));
  EXPECT_THAT(key({-81, -82}), EndsWith(" top<-80"));
  EXPECT_THAT(key({-16384, -16384 - 64}), HasSubstr(" top<-10000"));
  EXPECT_THAT(key({1024, 1032}), EndsWith(" offset"));
  EXPECT_THAT(key({0x1p17F, 0}), HasSubstr("beyond-fp16"));
  EXPECT_THAT(key({2, 0}), EndsWith(" confident"));
  EXPECT_THAT(key({std::numeric_limits<float>::quiet_NaN(), 0}), EndsWith(" weight=nan"));
}

// With every output asked for, one cause that was seen in two outputs shows in both. Fails if the key
// separates cases that differ in the output alone, or forgets what the target does around the problem.
TEST(Bucket, BehaviourJoinsOutputsAndPartsCauses) {
  const Behaviour tail{{"bound:logprob", "bound:lse"}, {"V!%64", "N:any", "offset<", "scale:any"}};
  const Bucket logprob = BucketOf(Row({0}, 0), On("logprob", 0), tail);
  EXPECT_EQ(logprob.key, "bound:logprob+bound:lse V!%64 N:any offset<");
  EXPECT_EQ(BucketOf(Row({0}, 0), On("lse", 0), tail), logprob);
  // Values and scale separate findings of one cause, so they are left out.
  EXPECT_EQ(BucketOf(Row({-1}, 0), On("lse", 0), {tail.also, {"V!%64", "N:any", "offset<"}}), logprob);
  EXPECT_NE(BucketOf(Row({0}, 0), On("lse", 0), {tail.also, {"V!%64", "N:any", "offset:any"}}),
            logprob);
  EXPECT_NE(BucketOf(Row({0}, 0), On("lse", 0), {{"bound:lse"}, tail.rules}), logprob);
  // The finding's own signature belongs to the key even if it was not seen again.
  EXPECT_THAT(BucketOf(Row({0}, 0), On("entropy", 0), tail).key, ::testing::StartsWith("bound:entropy+"));
}

// Fails if extents that depend on the values get into the key.
TEST(Bucket, RulesAreMadeCoarse) {
  const auto key = [](const std::vector<std::string>& rules) {
    return BucketOf(Row({0, 1}, 0), On("lse", 0), {{}, rules}).key;
  };
  EXPECT_EQ(key({"V=157", "N:mixed", "label>=3"}), "bound:lse V:mixed N:any label:mixed");
  EXPECT_EQ(key({"V=2", "N=1", "label:last"}), "bound:lse V=2 N=1 label:last");
  EXPECT_EQ(key({"V>=65!%64", "H!%16"}), "bound:lse V>=65!%64 H!%16");
}

TEST(Bucket, GradientsSayByWhatFactorTheyAreOff) {
  const auto last = [](double got, double expected, double tightness) {
    Finding f = On("grad_hidden", 0);
    f.got = got;
    f.expected = expected;
    f.tightness = tightness;
    const std::string key = BucketOf(Row({0, 1}, 0), f, {{"bound:grad_hidden"}, {}}).key;
    return key.substr(key.rfind(' ') + 1);
  };
  EXPECT_EQ(last(0, 0.5, 900), "got=0");
  EXPECT_EQ(last(0.25, 0, 900), "got!=0");
  EXPECT_EQ(last(-0.5, 0.5, 900), "got=-1x");
  EXPECT_EQ(last(1.0, 0.5, 900), "got=2x");
  EXPECT_EQ(last(0.2501, 0.5, 900), "got=0.5x");
  EXPECT_EQ(last(0.501, 0.5, 3), "slight");
  EXPECT_EQ(last(0.7, 0.5, 900), "gross");
}

// Fails if a name of the target, or a number that came back, gets into the key: the bucket would then
// change with the arithmetic.
TEST(Bucket, DependsOnTheProblemAndTheSignatureAlone) {
  const OwnedProblem p = Row({0, 1}, 0);
  Finding a = On("logprob", 0), b = a;
  b.got = 3;
  b.bound = 1;
  b.what = "something else";
  EXPECT_EQ(BucketOf(p, a), BucketOf(p, b));
  b.kind = FindingKind::kSign;
  EXPECT_NE(BucketOf(p, a).id, BucketOf(p, b).id);
}

// Pinned, since names of files depend on it.
TEST(Bucket, IdIsStable) {
  const Bucket bucket = BucketOf(Row({0, 1}, 0), On("logprob", 0));
  EXPECT_EQ(bucket.id, "d1473419");
}

// Fails if an index from the finding is used without a check: a file may hold any number.
TEST(Bucket, SurvivesAnyFinding) {
  for (const int64_t row : {int64_t{-1}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
    for (const char* output : {"logprob", "grad_weight", "", "first_invalid_row"}) {
      EXPECT_THAT(BucketOf(Row({0, 1}, 0), On(output, row)).key, Not(HasSubstr("at=")));
    }
  }
  OwnedProblem empty = Row({}, 0);
  EXPECT_THAT(BucketOf(empty, On("lse", 0)).key, HasSubstr("V=0"));
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0

#include "oracle/verdict/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plumbline::oracle {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Element Finite(double value, double bound, double radius = 0) {
  return {Expect::kFinite, value, radius, bound};
}

JudgedElement JudgeLse(const Element& e, double got) { return Judge(Output::kLse, e, got); }

// Fails for a comparison written so that NaN passes (err > NaN is false), on either side.
TEST(Judge, NaNNeverPassesByAccident) {
  for (const Element& e : {Finite(1, 0.5), Finite(0, 0), Element{Expect::kVacuous, 1, 0, 100},
                           Element{Expect::kPlusZero, 0, 0, 0}, Element{Expect::kPlusInf, kInf, 0, 0},
                           Element{Expect::kMinusInf, -kInf, 0, 0}}) {
    EXPECT_EQ(JudgeLse(e, kNaN).verdict, Verdict::kFail) << static_cast<int>(e.expect);
  }
  EXPECT_EQ(JudgeLse(Finite(1, kNaN), 1.5).verdict, Verdict::kFail);  // the bound is NaN
  EXPECT_EQ(JudgeLse(Finite(kNaN, 1), 1).verdict, Verdict::kFail);
  EXPECT_EQ(JudgeLse({Expect::kNaN, kNaN, 0, 0}, kNaN).verdict, Verdict::kPass);
  EXPECT_EQ(JudgeLse({Expect::kNaN, kNaN, 0, 0}, 0).verdict, Verdict::kFail);
}

// Fails for `<` in place of `<=` at the bound, for a radius that is not added, and for a tightness that
// divides by zero.
TEST(Judge, TheBoundIsInclusiveAndTheRadiusIsOurs) {
  EXPECT_EQ(JudgeLse(Finite(1, 0.5), 1.5).verdict, Verdict::kPass);
  EXPECT_EQ(JudgeLse(Finite(1, 0.5), 1.5).tightness, 1);
  EXPECT_EQ(JudgeLse(Finite(1, 0.5), std::nextafter(1.5, 2)).verdict, Verdict::kFail);
  EXPECT_EQ(JudgeLse(Finite(1, 0.5, 0.25), 1.75).verdict, Verdict::kPass);
  EXPECT_EQ(JudgeLse(Finite(1, 0), 1).tightness, 0);
  EXPECT_EQ(JudgeLse(Finite(1, 0), 2).tightness, kInf);
  EXPECT_EQ(JudgeLse(Finite(0, 0), -0.0).verdict, Verdict::kPass);
}

// Fails for a sign check with a tolerance, and if -0 is accepted where +0 is promised.
TEST(Judge, SignsHaveNoTolerance) {
  EXPECT_EQ(Judge(Output::kLogprob, Finite(-1e-9, 1e-6), 1e-9).failure, Failure::kSign);
  EXPECT_EQ(Judge(Output::kEntropy, Finite(1e-9, 1e-6), -1e-9).failure, Failure::kSign);
  EXPECT_EQ(Judge(Output::kLse, Finite(1e-9, 1e-6), -1e-9).verdict, Verdict::kPass);
  EXPECT_EQ(Judge(Output::kLogprob, {Expect::kVacuous, -1, 0, 50}, 3).failure, Failure::kSign);
  EXPECT_EQ(Judge(Output::kGradHidden, {Expect::kPlusZero, 0, 0, 0}, -0.0).failure, Failure::kNotZero);
  EXPECT_EQ(Judge(Output::kGradHidden, {Expect::kPlusZero, 0, 0, 0}, 0.0).verdict, Verdict::kPass);
}

// Fails if a sign that was not promised fails within its bound, passes beyond it, or makes a vacuous
// element a pass.
TEST(Judge, SignsThatAreNotPromisedHaveTheBound) {
  const Promises none;
  EXPECT_EQ(Judge(Output::kLogprob, Finite(-1e-9, 1e-6), 1e-9, none).verdict, Verdict::kPass);
  EXPECT_EQ(Judge(Output::kEntropy, Finite(1e-9, 1e-6), -1e-9, none).verdict, Verdict::kPass);
  EXPECT_EQ(Judge(Output::kLogprob, Finite(-1e-9, 1e-6), 2e-6, none).failure, Failure::kBound);
  EXPECT_EQ(Judge(Output::kLogprob, {Expect::kVacuous, -1, 0, 50}, 3, none).verdict, Verdict::kVacuous);
}

// Fails if a convention's alternative passes of a target that promises the definition, if it fails of
// one that does not, if a third value passes of either, or if the side is not recorded.
TEST(Judge, EitherSideOfAConvention) {
  struct Row {
    Expect expect;
    double definition, alternative, neither;
    Convention convention;
  };
  for (const Row& r : {Row{Expect::kPlusZero, 0, -0.0, 1e-300, Convention::kZeroSign},
                       Row{Expect::kEmptyLse, kNaN, -kInf, 0, Convention::kEmptyLse},
                       Row{Expect::kEmptyLse, kNaN, -kInf, kInf, Convention::kEmptyLse},
                       Row{Expect::kEmptyMean, 0, kNaN, kInf, Convention::kEmptyMean},
                       Row{Expect::kEmptyMean, -0.0, kNaN, 1e-300, Convention::kEmptyMean}}) {
    const Element e = {r.expect, 0, 0, 0};
    EXPECT_EQ(JudgeLse(e, r.definition).verdict, Verdict::kPass);
    EXPECT_EQ(JudgeLse(e, r.alternative).verdict, Verdict::kFail);
    EXPECT_TRUE(JudgeLse(e, r.definition).conventions.empty());
    const auto either = [&](double got) { return Judge(Output::kLse, e, got, Promises{}); };
    EXPECT_EQ(either(r.definition).verdict, Verdict::kPass);
    EXPECT_EQ(either(r.definition).conventions.alternative, 0);
    EXPECT_EQ(either(r.alternative).verdict, Verdict::kPass);
    EXPECT_EQ(either(r.alternative).conventions.alternative, ConventionsSeen::Bit(r.convention));
    EXPECT_EQ(either(r.neither).verdict, Verdict::kFail);
    EXPECT_TRUE(either(r.neither).conventions.empty());
  }
  const Element ignored = {Expect::kIgnored, 0, 0, 0};
  EXPECT_EQ(JudgeLse(ignored, -6.5).failure, Failure::kBound);
  EXPECT_EQ(JudgeLse(ignored, kNaN).failure, Failure::kNonFinite);
  for (const double got : {-6.5, kNaN, kInf}) {
    const JudgedElement judged = Judge(Output::kLse, ignored, got, Promises{});
    EXPECT_EQ(judged.verdict, Verdict::kPass);
    EXPECT_EQ(judged.conventions.alternative, ConventionsSeen::Bit(Convention::kIgnoredRow));
  }
}

// Fails if a vacuous element counts as a pass, or an unspecified one is judged.
TEST(Judge, VacuousAndUnspecifiedAreNotPasses) {
  EXPECT_EQ(JudgeLse({Expect::kVacuous, 1, 0, 100}, 50).verdict, Verdict::kVacuous);
  EXPECT_EQ(JudgeLse({Expect::kUnspecified, 0, 0, 0}, kNaN).verdict, Verdict::kUnspecified);
}

// Fails if the worst element is a tight pass while another element fails, and if a strided output is
// read densely.
TEST(JudgeAll, ReportsTheFailureBeforeTheTightestPass) {
  std::vector<float> data = {1.0f, 99.0f, 2.4f, 99.0f, 3.5f, 99.0f};  // stride 2
  kernel::Results results;
  results.lse = kernel::Tensor{data.data(), kernel::DType::kF32, 1, {3, 1}, {2, 1}};
  Expectation expected;
  expected[Output::kLse] = {3, 1, {Finite(1, 0.5), Finite(2, 0.5), Finite(3, 0.4)}};
  const auto verdicts = JudgeAll(results, expected);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].pass, 2);
  EXPECT_EQ(verdicts[0].fail, 1);
  EXPECT_EQ(verdicts[0].row, 2);
  EXPECT_EQ(verdicts[0].got, 3.5);
  EXPECT_NEAR(verdicts[0].tightness, 1.25, 1e-12);
}

}  // namespace
}  // namespace plumbline::oracle

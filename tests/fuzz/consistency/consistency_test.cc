// SPDX-License-Identifier: Apache-2.0
//
// The checks on outputs of the host operator, sound ones and damaged ones.

#include "fuzz/consistency/consistency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fuzz/consistency/row_errors.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

struct Sizes {
  int64_t n = 24, v = 150, h = 64;
  kernel::DType dtype = kernel::DType::kBf16;
  kernel::Reduction reduction = kernel::Reduction::kNone;
  float entropy_grad = 0;
  int64_t ignored = 0;  // the last rows
  float equal = 0;      // the value of column 5 of weight; 0: as drawn
};

// A problem of random normal numbers with the host's outputs, all in fp32, which a test may damage.
class Computed {
 public:
  explicit Computed(const Sizes& sizes, int64_t without = -1) : sizes_(sizes) {
    Draw();
    if (without >= 0) owned_.grad_logprob->SetFloat(without, 0);
    const int64_t n = sizes.n, v = sizes.v, h = sizes.h;
    for (const int64_t size : {n, n, n, n * h, v * h, int64_t{1}}) {
      memory_.emplace_back(static_cast<size_t>(size));
    }
    results_.entropy = Of(1, {n, 1});
    results_.lse = Of(2, {n, 1});
    results_.grad_hidden = Of(3, {n, h});
    results_.grad_weight = Of(4, {v, h});
    if (sizes.reduction == kernel::Reduction::kNone) {
      results_.logprob = Of(0, {n, 1});
    } else {
      results_.loss = kernel::Tensor{memory_[5].data(), kernel::DType::kF32, 0, {1, 1}, {1, 1}};
    }
    Run(results_, problem());
    if (sizes.reduction == kernel::Reduction::kNone) return;
    kernel::Problem plain = problem();
    plain.reduction = kernel::Reduction::kNone;
    plain.grad_logprob.reset();
    kernel::Results logprob;
    logprob.logprob = results_.logprob = Of(0, {n, 1});
    Run(logprob, plain);
  }

  kernel::Problem problem() const { return DenseView(owned_); }
  float* logprob() { return memory_[0].data(); }
  float* entropy() { return memory_[1].data(); }
  float* lse() { return memory_[2].data(); }
  float* grad_hidden() { return memory_[3].data(); }
  float* grad_weight() { return memory_[4].data(); }
  float* loss() { return memory_[5].data(); }
  double hidden(int64_t row, int64_t d) const { return owned_.hidden.GetFloat(row * sizes_.h + d); }
  int64_t label(int64_t row) const { return owned_.labels.GetInt(row); }
  double g(int64_t row) const { return owned_.grad_logprob->GetFloat(row); }
  const Sizes& sizes() const { return sizes_; }

  ConsistencyReport Check(bool statistical = false, bool black_box = false) const {
    ConsistencyOptions options;
    options.statistical = statistical;
    return CheckConsistency(problem(), results_, black_box ? oracle::Contract() : contract_, options);
  }

 private:
  void Draw() {
    std::mt19937 random(20261125);
    std::normal_distribution<float> normal;
    const auto draw = [&](kernel::DType dtype, std::vector<int64_t> shape, float scale) {
      HostTensor tensor = HostTensor::Zeros(dtype, std::move(shape));
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.SetFloat(i, scale * normal(random));
      return tensor;
    };
    const auto [n, v, h, dtype, reduction, entropy_grad, ignored, equal] = sizes_;
    owned_.hidden = draw(dtype, {n, h}, 2);
    owned_.weight = draw(dtype, {v, h}, 0.1F);
    for (int64_t row = 0; row < v && equal != 0; ++row) owned_.weight.SetFloat(row * h + 5, equal);
    owned_.labels = HostTensor::Zeros(kernel::DType::kI64, {n});
    for (int64_t i = 0; i < n; ++i) owned_.labels.SetInt(i, static_cast<int64_t>(random()) % v);
    for (int64_t i = n - ignored; i < n; ++i) owned_.labels.SetInt(i, -100);
    owned_.reduction = reduction;
    if (reduction == kernel::Reduction::kNone) {
      owned_.grad_logprob = draw(kernel::DType::kF32, {n}, 1);
    } else {
      owned_.grad_logprob = HostTensor::Zeros(kernel::DType::kF32, {});
      owned_.grad_logprob->SetFloat(0, 1);
    }
    if (entropy_grad == 0) return;
    owned_.grad_entropy = HostTensor::Zeros(kernel::DType::kF32, {n});
    for (int64_t i = 0; i < n; ++i) owned_.grad_entropy->SetFloat(i, entropy_grad);
  }
  kernel::Tensor Of(size_t which, std::vector<int64_t> shape) {
    const int rank = shape[1] == 1 && which < 3 ? 1 : 2;
    return {memory_[which].data(),
            kernel::DType::kF32,
            rank,
            {shape[0], shape[1]},
            {rank == 1 ? 1 : shape[1], 1}};
  }
  void Run(const kernel::Results& results, const kernel::Problem& problem) {
    std::string error;
    const auto host = LoadTarget("host", &error);
    ASSERT_TRUE(host) << error;
    const RunOutcome outcome = host->Run(problem, results);
    ASSERT_EQ(outcome.status, RunStatus::kOk) << outcome.message;
    contract_ = host->description().contract;
  }

  Sizes sizes_;
  OwnedProblem owned_;
  std::vector<std::vector<float>> memory_;
  kernel::Results results_;
  oracle::Contract contract_;
};

const ConsistencyCheck* Find(const ConsistencyReport& report, std::string_view name,
                             Output output = Output::kLoss) {
  for (const ConsistencyCheck& check : report.checks) {
    if (check.name == name && (output == Output::kLoss || check.output == output)) return &check;
  }
  return nullptr;
}

// The names of the checks that do not hold.
std::string Broken(const ConsistencyReport& report) {
  std::string names;
  for (const ConsistencyCheck& check : report.checks) {
    if (check.verdict == ConsistencyVerdict::kWrong) names += std::string(check.name) + " ";
    if (check.verdict == ConsistencyVerdict::kSuspect)
      names += "suspect:" + std::string(check.name) + " ";
  }
  return names;
}

// Fails for a check that is not made, one that says nothing on ordinary data, or a tolerance that is
// too small, of either tier.
TEST(Consistency, SoundOutputsHold) {
  for (const kernel::DType dtype : {kernel::DType::kBf16, kernel::DType::kF16, kernel::DType::kF32}) {
    const Computed plain({.dtype = dtype, .ignored = 2, .equal = 0.5F});
    for (const bool black_box : {false, true}) {
      const ConsistencyReport report = plain.Check(true, black_box);
      EXPECT_EQ(Broken(report), "");
      for (const char* name :
           {"column-sums", "inner-products", "row-inner-products", "equal-weights", "entropy-range",
            "bf16-grid", "fp16-grid", "bf16-logits", "fp16-logits"}) {
        const ConsistencyCheck* check = Find(report, name);
        ASSERT_TRUE(check) << name;
        EXPECT_EQ(check->verdict, ConsistencyVerdict::kHolds)
            << name << (black_box ? " black box" : "");
        EXPECT_GT(check->compared, 0) << name;
      }
    }
    EXPECT_EQ(Broken(Computed({.dtype = dtype, .entropy_grad = 0.1F}).Check(true, true)), "");
    const Computed mean({.dtype = dtype, .reduction = kernel::Reduction::kMean, .ignored = 5});
    const ConsistencyReport report = mean.Check(true);
    EXPECT_EQ(Broken(report), "");
    ASSERT_TRUE(Find(report, "loss-sum"));
    EXPECT_EQ(Find(report, "loss-sum")->verdict, ConsistencyVerdict::kHolds);
  }
}

// Fails if the sums of columns are not compared with 0, or if the row is not named. A black box may
// round d_logits of 2000 rows to bf16 in one direction, which is no usual error: fails if its tolerance
// hides one missing one-hot of 2000 from both tiers.
TEST(Consistency, AMissingOneHotShows) {
  for (const bool black_box : {false, true}) {
    Computed c({.n = black_box ? 2000 : 24});
    int64_t row = 0;
    for (int64_t i = 0; i < c.sizes().n; ++i) row = std::fabs(c.g(i)) > std::fabs(c.g(row)) ? i : row;
    for (int64_t d = 0; d < c.sizes().h; ++d) {
      c.grad_weight()[c.label(row) * c.sizes().h + d] -=
          static_cast<float>(c.g(row) * c.hidden(row, d));
    }
    const ConsistencyReport report = c.Check(true, black_box);
    const ConsistencyCheck* check = Find(report, "column-sums");
    ASSERT_TRUE(check);
    EXPECT_EQ(check->verdict, black_box ? ConsistencyVerdict::kSuspect : ConsistencyVerdict::kWrong)
        << check->left << " usual " << check->usual << " allowed " << check->tolerance;
    EXPECT_NE(check->what.find("as if the label of row " + std::to_string(row) + " had no part in it"),
              std::string::npos)
        << check->what;
  }
}

// Fails if a sum goes over a part of the vocabulary.
TEST(Consistency, ColumnsLeftOutShow) {
  Computed c({.n = 16, .v = 3000});
  std::fill_n(c.grad_weight() + 2000 * c.sizes().h, 1000 * c.sizes().h, 0.0F);
  const ConsistencyReport report = c.Check();
  ASSERT_TRUE(Find(report, "column-sums"));
  EXPECT_EQ(Find(report, "column-sums")->verdict, ConsistencyVerdict::kWrong);
}

// A row's d_logits add up to 0, so column sums do not show that it is missing. Fails if the two inner
// products are not compared, or the row is not named.
TEST(Consistency, ARowMissingInGradWeightShows) {
  Computed c({}), without({}, /*without=*/11);
  std::copy_n(without.grad_weight(), c.sizes().v * c.sizes().h, c.grad_weight());
  const ConsistencyReport report = c.Check();
  EXPECT_EQ(Broken(report), "inner-products ");
  const std::string& what = Find(report, "inner-products")->what;
  EXPECT_NE(what.find("as if row 11 had no part in grad_weight"), std::string::npos) << what;
}

// Fails if grad_hidden is not compared with the forward outputs row by row: a row that is 0 there, or
// one that was scaled by another row's upstream gradient.
TEST(Consistency, ARowOfGradHiddenShows) {
  Computed c({});
  std::fill_n(c.grad_hidden() + 3 * c.sizes().h, c.sizes().h, 0.0F);
  const ConsistencyReport report = c.Check();
  EXPECT_EQ(Broken(report), "inner-products row-inner-products ");
  EXPECT_EQ(Find(report, "row-inner-products")->row, 3);
}

// Fails if dimensions of equal weights are not looked for, or not held to 0.
TEST(Consistency, EqualWeightsShowWhatIsLeft) {
  Computed c({.equal = 0.5F});
  c.grad_hidden()[4 * c.sizes().h + 5] += 0.01F;
  const ConsistencyReport report = c.Check();
  ASSERT_TRUE(Find(report, "equal-weights"));
  EXPECT_EQ(Find(report, "equal-weights")->verdict, ConsistencyVerdict::kWrong);
  EXPECT_EQ(Find(report, "equal-weights")->row, 4);
  EXPECT_EQ(Find(report, "equal-weights")->column, 5);
}

// Fails if the entropy is not held to Fano's bounds on either side.
TEST(Consistency, AnEntropyOutsideOfFanosBoundsShows) {
  for (const float entropy : {0.0F, 5.2F}) {  // ln 150 = 5.01
    Computed c({});
    c.entropy()[9] = entropy;
    const ConsistencyReport report = c.Check();
    ASSERT_TRUE(Find(report, "entropy-range"));
    EXPECT_EQ(Find(report, "entropy-range")->verdict, ConsistencyVerdict::kWrong) << entropy;
    EXPECT_EQ(Find(report, "entropy-range")->row, 9);
  }
}

// Fails if ignored rows count in the mean, or if the reason is not named.
TEST(Consistency, ALossOfTheWrongCountShows) {
  Computed c({.reduction = kernel::Reduction::kMean, .ignored = 5});
  *c.loss() *= 19.0F / 24;
  const ConsistencyReport report = c.Check(true);
  EXPECT_EQ(Broken(report), "loss-sum ");
  const std::string& what = Find(report, "loss-sum")->what;
  EXPECT_NE(what.find("divided by the number of all rows"), std::string::npos) << what;
}

float OnGrid(float x) { return kernel::ToFloat(kernel::ToBFloat16(x)); }

// Fails if the grid of an fp32 output is not looked at.
TEST(Consistency, OutputsOnTheGridOfBf16Show) {
  Computed c({});
  for (int64_t i = 0; i < c.sizes().n; ++i) c.lse()[i] = OnGrid(c.lse()[i]);
  const ConsistencyReport report = c.Check(true);
  const ConsistencyCheck* check = Find(report, "bf16-grid", Output::kLse);
  ASSERT_TRUE(check);
  EXPECT_EQ(check->verdict, ConsistencyVerdict::kSuspect);
  EXPECT_EQ(Find(report, "bf16-grid", Output::kEntropy)->verdict, ConsistencyVerdict::kHolds);
}

// Fails if the label's logit is not looked at, or not with the error of logprob + lse.
TEST(Consistency, LogitsOnTheGridOfBf16Show) {
  Computed c({});
  for (int64_t i = 0; i < c.sizes().n; ++i) {
    c.logprob()[i] = OnGrid(c.logprob()[i] + c.lse()[i]) - c.lse()[i];
  }
  const ConsistencyReport report = c.Check(true);
  ASSERT_TRUE(Find(report, "bf16-logits"));
  EXPECT_EQ(Find(report, "bf16-logits")->verdict, ConsistencyVerdict::kSuspect);
}

// Rows of which nothing can be said are left out with a reason. Fails if an invalid label, whose row is
// NaN by the definition, makes a sum wrong.
TEST(Consistency, AnInvalidLabelLeavesSumsOut) {
  Computed c({});
  OwnedProblem invalid;
  const kernel::Problem given = c.problem();
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < c.sizes().n; ++i) labels.push_back(c.label(i));
  labels[2] = c.sizes().v;
  kernel::Problem problem = given;
  problem.labels.data = labels.data();
  kernel::Results results;
  std::vector<float> nan(static_cast<size_t>(c.sizes().v * c.sizes().h), std::nanf(""));
  results.grad_weight =
      kernel::Tensor{nan.data(), kernel::DType::kF32, 2, {c.sizes().v, c.sizes().h}, {c.sizes().h, 1}};
  const ConsistencyReport report = CheckConsistency(problem, results, {});
  EXPECT_EQ(Broken(report), "");
  ASSERT_FALSE(report.left_out.empty());
  EXPECT_NE(report.left_out[0].find("row 2 has an invalid label"), std::string::npos)
      << report.left_out[0];
}

// Campaigns meet dimensions of equal weights: offsets of all logits are made of one. Fails if no regime
// draws them, so that the check never says anything.
TEST(Consistency, ARegimeDrawsEqualWeights) {
  int64_t met = 0;
  for (uint64_t index = 0; index < 20; ++index) {
    const OwnedProblem problem = Expand(DrawRecipe(1, index, "common-offset"));
    std::vector<float> zeros(static_cast<size_t>(problem.hidden.size()));
    kernel::Results results;
    const int64_t n = problem.rows(), h = problem.hidden_size();
    results.grad_hidden = kernel::Tensor{zeros.data(), kernel::DType::kF32, 2, {n, h}, {h, 1}};
    std::string error;
    const auto host = LoadTarget("host", &error);
    ASSERT_TRUE(host) << error;
    const ConsistencyReport report =
        CheckConsistency(DenseView(problem), results, host->description().contract);
    const ConsistencyCheck* check = Find(report, "equal-weights");
    met += check != nullptr && check->compared > 0;
  }
  EXPECT_GE(met, 5);
}

// The moments that every tolerance rests on. Fails for a bound of sum p ln^2 p that a distribution
// passes: uniform ones, and two levels in any proportion.
TEST(Consistency, NoDistributionPassesTheWidestRow) {
  for (const int64_t v : {1, 2, 3, 4, 7, 50, 1000, 151936}) {
    for (int64_t few = 0; few <= std::min<int64_t>(v, 4); ++few) {
      for (int step = 0; step <= 400; ++step) {
        const double mass = few == 0 ? 0 : few == v ? 1 : step / 400.0;
        double entropy = 0, squares = 0;
        const auto add = [&](double count, double all) {
          if (count == 0 || all == 0) return;
          const double log = std::log(all / count);
          entropy -= all * log;
          squares += all * log * log;
        };
        add(static_cast<double>(few), mass);
        add(static_cast<double>(v - few), 1 - mass);
        EXPECT_LE(entropy, LargestEntropy(v) * (1 + 1e-12));
        EXPECT_LE(squares, LargestSquare(v));
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Foreign kernels against the usual tolerances of the consistency checks, on random normal problems of
// the sizes in which that tier speaks.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/consistency/consistency.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::fuzz {
namespace {

struct Usual {
  int64_t n = 16, v = 300, h = 64;
  kernel::DType dtype = kernel::DType::kBf16, gradients = kernel::DType::kF32;
  float hidden = 2, weight = 0.1F, temperature = 1, entropy_grad = 0;
  int64_t alike = 1;  // the first rows of hidden, and of weight, that are one row
};

class UsualProblem {
 public:
  UsualProblem(const Usual& usual, unsigned seed) : usual_(usual) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto draw = [&](kernel::DType dtype, std::vector<int64_t> shape, float scale) {
      HostTensor tensor = HostTensor::Zeros(dtype, std::move(shape));
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.SetFloat(i, scale * normal(random));
      return tensor;
    };
    owned_.hidden = draw(usual.dtype, {usual.n, usual.h}, usual.hidden);
    owned_.weight = draw(usual.dtype, {usual.v, usual.h}, usual.weight);
    for (HostTensor* tensor : {&owned_.hidden, &owned_.weight}) {
      for (int64_t i = usual.h; i < usual.alike * usual.h; ++i) {
        tensor->SetFloat(i, tensor->GetFloat(i % usual.h));
      }
    }
    owned_.grad_logprob = draw(kernel::DType::kF32, {usual.n}, 1);
    owned_.grad_entropy = HostTensor::Zeros(kernel::DType::kF32, {usual.n});
    for (int64_t i = 0; i < usual.n; ++i) owned_.grad_entropy->SetFloat(i, usual.entropy_grad);
    owned_.labels = HostTensor::Zeros(kernel::DType::kI64, {usual.n});
    for (int64_t i = 0; i < usual.n; ++i) {
      owned_.labels.SetInt(i, static_cast<int64_t>(random() % static_cast<unsigned>(usual.v)));
    }
    owned_.temperature = HostTensor::Zeros(kernel::DType::kF32, {});
    owned_.temperature->SetFloat(0, usual.temperature);
    memory_.reserve(5);
  }

  kernel::Problem problem() const { return DenseView(owned_); }
  kernel::Results Room() {
    memory_.clear();
    kernel::Results r;
    r.logprob = Room(kernel::DType::kF32, {usual_.n});
    r.entropy = Room(kernel::DType::kF32, {usual_.n});
    r.lse = Room(kernel::DType::kF32, {usual_.n});
    r.grad_hidden = Room(usual_.gradients, {usual_.n, usual_.h});
    r.grad_weight = Room(usual_.gradients, {usual_.v, usual_.h});
    return r;
  }

 private:
  kernel::Tensor Room(kernel::DType dtype, std::vector<int64_t> shape) {
    HostTensor& tensor = memory_.emplace_back(HostTensor::Zeros(dtype, std::move(shape)));
    return AsResult(tensor.View());
  }

  Usual usual_;
  OwnedProblem owned_;
  std::vector<HostTensor> memory_;
};

class UsualConsistency : public ::testing::TestWithParam<honest::Kernel> {};

// Fails if errors that all honest kernels make are taken for smaller than they are: rows that are alike
// taken for independent, truncation for random, logits of two passes for the same, a rough function
// for a fine one.
TEST_P(UsualConsistency, OfAHonestKernelHolds) {
  const kernel::DType bf16 = kernel::DType::kBf16, fp32 = kernel::DType::kF32;
  std::string error;
  const auto target =
      LoadTarget(std::string("plugin:" HONEST_PLUGINS "/honest-") + GetParam().name + ".so", &error);
  ASSERT_TRUE(target) << error;
  unsigned seed = 0;
  double most = 0;
  for (const Usual& usual :
       {Usual{}, Usual{.gradients = bf16, .alike = 8}, Usual{.dtype = fp32},
        Usual{.hidden = 6, .weight = 0.3F, .temperature = 0.7F}, Usual{.entropy_grad = 0.1F},
        Usual{.n = 64, .v = 80, .h = 128, .gradients = bf16}}) {
    UsualProblem drawn(usual, ++seed);
    const kernel::Problem problem = drawn.problem();
    const kernel::Results results = drawn.Room();
    const RunOutcome outcome = target->Run(problem, results);
    if (outcome.status == RunStatus::kUnsupported) continue;
    ASSERT_EQ(outcome.status, RunStatus::kOk) << outcome.message;
    const ConsistencyReport report =
        CheckConsistency(problem, results, target->description().Assumed(), {.statistical = true});
    const oracle::Contract& contract = target->description().contract;
    const bool derived = !contract.log_probs.Narrow() && !contract.probabilities.Narrow() &&
                         contract.filter == 0;  // consistency.cc: WhyNotUnder
    EXPECT_EQ(report.checks.size() >= 3, derived);
    for (const ConsistencyCheck& check : report.checks) {
      EXPECT_NE(check.verdict, ConsistencyVerdict::kWrong) << check.name << ": " << check.what;
      EXPECT_NE(check.verdict, ConsistencyVerdict::kSuspect)
          << check.name << ": " << check.what << ", seed " << seed << " left " << check.left
          << " usual " << check.usual << " allowed " << check.tolerance;
      if (check.usual > 0) most = std::max(most, check.left / check.usual);
    }
  }
  RecordProperty("most", std::to_string(most));
}

INSTANTIATE_TEST_SUITE_P(All, UsualConsistency, ::testing::ValuesIn(honest::Kernels()),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// A problem of random normal numbers, run by a target and compared with honest members of a contract.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/baseline/honest_errors.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz::testing {

struct Shape {
  int64_t n = 16, v = 500, h = 128;
  kernel::DType dtype = kernel::DType::kBf16;
  float hidden = 2, weight = 0.05F;  // standard deviations
  float temperature = 1;
  kernel::DType gradients = kernel::DType::kF32;
};

// A problem of random normal numbers, with room for every output.
class Drawn {
 public:
  Drawn(const Shape& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto draw = [&](kernel::DType dtype, std::vector<int64_t> extent, float scale) {
      HostTensor tensor = HostTensor::Zeros(dtype, std::move(extent));
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.SetFloat(i, scale * normal(random));
      return tensor;
    };
    owned_.hidden = draw(shape.dtype, {shape.n, shape.h}, shape.hidden);
    owned_.weight = draw(shape.dtype, {shape.v, shape.h}, shape.weight);
    owned_.grad_logprob = draw(kernel::DType::kF32, {shape.n}, 1);
    owned_.grad_entropy = draw(kernel::DType::kF32, {shape.n}, 0.01F);
    owned_.labels = HostTensor::Zeros(kernel::DType::kI64, {shape.n});
    for (int64_t i = 0; i < shape.n; ++i) {
      owned_.labels.SetInt(i, static_cast<int64_t>(random() % static_cast<unsigned>(shape.v)));
    }
    if (shape.temperature != 1) {
      owned_.temperature = HostTensor::Zeros(kernel::DType::kF32, {});
      owned_.temperature->SetFloat(0, shape.temperature);
    }
    problem_ = DenseView(owned_);
    const auto room = [&](std::optional<kernel::Tensor>* output, std::vector<int64_t> extent,
                          kernel::DType dtype = kernel::DType::kF32) {
      memory_.push_back(HostTensor::Zeros(dtype, std::move(extent)));
      HostTensor& tensor = memory_.back();
      const kernel::ConstTensor view = tensor.View();
      *output = kernel::Tensor{tensor.bytes.data(),
                               view.dtype,
                               view.rank,
                               {view.shape[0], view.shape[1]},
                               {view.stride[0], view.stride[1]}};
    };
    memory_.reserve(5);
    room(&results_.logprob, {shape.n});
    room(&results_.entropy, {shape.n});
    room(&results_.lse, {shape.n});
    room(&results_.grad_hidden, {shape.n, shape.h}, shape.gradients);
    room(&results_.grad_weight, {shape.v, shape.h}, shape.gradients);
  }

  // Runs a target and compares what it gives with honest members of a contract, its own if that is
  // empty. `worst` is, where not null, the largest error over its bound.
  HonestErrors Run(const std::string& name, const std::string& contract,
                   double* worst = nullptr) const {
    std::string error;
    const auto target = LoadTarget(name, &error);
    if (!target) throw std::runtime_error(error);
    if (const auto outcome = target->Run(problem_, results_); outcome.status != RunStatus::kOk) {
      throw std::runtime_error(outcome.message);
    }
    oracle::Contract held = target->description().contract;
    if (!contract.empty()) held = DescriptionOf(contract, &error)->description.Assumed();
    HonestErrorTier tier(problem_, results_, held, {});
    const oracle::Judgement judgement =
        oracle::JudgeProblem(problem_, results_, held, {}, nullptr, &tier);
    for (const oracle::OutputVerdict& v : judgement.outputs) {
      if (worst != nullptr) *worst = std::max(*worst, v.tightness);
    }
    return tier.Compare();
  }

 private:
  OwnedProblem owned_;
  kernel::Problem problem_;
  std::vector<HostTensor> memory_;
  kernel::Results results_;
};

inline std::string Text(const std::vector<OutputErrors>& outputs) {
  std::string text;
  for (const OutputErrors& o : outputs) {
    text += std::string(oracle::Name(o.output)) + " " + std::string(o.part) + " " +
            std::to_string(o.units.Judged()) + "\n";
  }
  return text;
}

}  // namespace plumbline::fuzz::testing

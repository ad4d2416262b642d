// SPDX-License-Identifier: Apache-2.0
//
// A problem of random normal numbers, run by a target and compared with honest members of a contract.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/baseline/honest_errors.h"
#include "fuzz/baseline/weight_columns.h"
#include "fuzz/check/dump.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/problem/safetensors.h"
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
      *output = AsResult(memory_.back().View());
    };
    memory_.reserve(5);
    room(&results_.logprob, {shape.n});
    room(&results_.entropy, {shape.n});
    room(&results_.lse, {shape.n});
    room(&results_.grad_hidden, {shape.n, shape.h}, shape.gradients);
    room(&results_.grad_weight, {shape.v, shape.h}, shape.gradients);
  }

  const OwnedProblem& owned() const { return owned_; }
  // The target has no lse.
  void LeaveOutLse() { results_.lse.reset(); }
  // A row without part in the gradients, which may hold anything.
  void Mask(int64_t row) {
    owned_.grad_logprob->SetFloat(row, 0);
    owned_.grad_entropy->SetFloat(row, 0);
    owned_.hidden.SetFloat(row * owned_.hidden_size(), std::numeric_limits<float>::infinity());
  }
  // Adds to each row of hidden what moves its label's logit up by so much.
  void Confide(float gap) {
    const int64_t h = owned_.hidden_size();
    for (int64_t i = 0; i < owned_.rows(); ++i) {
      const int64_t label = owned_.labels.GetInt(i) * h;
      float square = 0;
      for (int64_t j = 0; j < h; ++j) square += std::pow(owned_.weight.GetFloat(label + j), 2.0F);
      for (int64_t j = 0; j < h; ++j) {
        const float more = gap * owned_.weight.GetFloat(label + j) / square;
        owned_.hidden.SetFloat(i * h + j, owned_.hidden.GetFloat(i * h + j) + more);
      }
    }
    problem_ = DenseView(owned_);
  }
  void ScaleUpstream(float factor) {
    for (std::optional<HostTensor>* const upstream : {&owned_.grad_logprob, &owned_.grad_entropy}) {
      for (int64_t i = 0; i < owned_.rows(); ++i)
        (*upstream)->SetFloat(i, factor * (*upstream)->GetFloat(i));
    }
  }
  // Takes this logit to every `every`-th column that is no label's, by a channel that is 1 in all rows.
  void Suppress(int64_t every, float logit) {
    const int64_t h = owned_.hidden_size();
    for (int64_t i = 0; i < owned_.rows(); ++i) owned_.hidden.SetFloat(i * h, 1);
    for (int64_t v = 0; v < owned_.vocab(); ++v) {
      owned_.weight.SetFloat(v * h, v % every == every / 2 ? logit : 0);
    }
    for (int64_t i = 0; i < owned_.rows(); ++i) {
      owned_.weight.SetFloat(owned_.labels.GetInt(i) * h, 0);
    }
    problem_ = DenseView(owned_);
  }
  const kernel::Problem& problem() const { return problem_; }
  // What a target that ran last wrote. Tests may write there.
  const kernel::Results& results() const { return results_; }
  // Runs a target.
  void Compute(const std::string& name) const { Compute(name, problem_); }

  // Runs a target and compares what it gives with honest members of a contract, its own if that is
  // empty. `worst` is, where not null, the largest error over its bound.
  HonestErrors Run(const std::string& name, const std::string& contract,
                   double* worst = nullptr) const {
    return Run(name, Held(name, contract), worst);
  }
  HonestErrors Run(const std::string& name, const oracle::Contract& held,
                   double* worst = nullptr) const {
    Compute(name);
    return Compare(held, worst);
  }
  // Compares what results() holds.
  HonestErrors Compare(const oracle::Contract& held, double* worst = nullptr) const {
    HonestErrorTier tier(problem_, results_, held, {});
    const oracle::Judgement judgement =
        oracle::JudgeProblem(problem_, results_, held, {}, nullptr, &tier);
    for (const oracle::OutputVerdict& v : judgement.outputs) {
      if (worst != nullptr) *worst = std::max(*worst, v.tightness);
    }
    return tier.Compare();
  }

  // The inputs, and what a target that ran last made of them, as a dump holds them.
  SafeTensors Dump() const {
    SafeTensors dump;
    dump.tensors = {{"hidden", owned_.hidden},
                    {"weight", owned_.weight},
                    {"labels", owned_.labels},
                    {"grad_logprob", *owned_.grad_logprob},
                    {"grad_entropy", *owned_.grad_entropy}};
    const char* const names[] = {"logprob", "entropy", "lse", "grad_hidden", "grad_weight"};
    for (size_t i = 0; i < memory_.size(); ++i) dump.tensors[names[i]] = memory_[i];
    return dump;
  }

  // Runs a target and compares its grad_weight with honest members of a contract, from its own lse or,
  // without that, from its logprob. Rows of `without` have no part in grad_weight.
  HonestErrors RunColumns(const std::string& name, const std::string& contract, bool lse = true,
                          std::vector<int64_t> without = {}) {
    const oracle::Contract held = Held(name, contract);
    HostTensor whole = *owned_.grad_logprob, whole_entropy = *owned_.grad_entropy;
    for (const int64_t i : without) {
      owned_.grad_logprob->SetFloat(i, 0);
      owned_.grad_entropy->SetFloat(i, 0);
    }
    Compute(name, DenseView(owned_));
    owned_.grad_logprob = std::move(whole);
    owned_.grad_entropy = std::move(whole_entropy);
    kernel::Results results = results_;
    if (!lse) results.lse.reset();
    return CompareWeightColumns(DenseView(owned_), results, held, {}, 0);
  }

 private:
  void Compute(const std::string& name, const kernel::Problem& problem) const {
    std::string error;
    const auto target = LoadTarget(name, &error);
    if (!target) throw std::runtime_error(error);
    if (const auto outcome = target->Run(problem, results_); outcome.status != RunStatus::kOk) {
      throw std::runtime_error(outcome.message);
    }
  }

  static oracle::Contract Held(const std::string& name, const std::string& contract) {
    std::string error;
    if (!contract.empty()) return DescriptionOf(contract, &error)->description.Assumed();
    const auto target = LoadTarget(name, &error);
    if (!target) throw std::runtime_error(error);
    return target->description().contract;
  }

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

// SPDX-License-Identifier: Apache-2.0
//
// The second tier on what targets really compute: honest ones are clean, defects whose errors lie deep
// inside the rigorous bounds are suspect.

#include "fuzz/baseline/honest_errors.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/target.h"
#include "oracle/judge/judge.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

struct Shape {
  int64_t n = 32, v = 1500, h = 512;
  kernel::DType dtype = kernel::DType::kBf16;
  float hidden = 2, weight = 0.05F;  // standard deviations
  float temperature = 1;
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
    const auto room = [&](std::optional<kernel::Tensor>* output, std::vector<int64_t> extent) {
      memory_.push_back(HostTensor::Zeros(kernel::DType::kF32, std::move(extent)));
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
    room(&results_.grad_hidden, {shape.n, shape.h});
    room(&results_.grad_weight, {shape.v, shape.h});
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

std::string Text(const std::vector<OutputErrors>& outputs) {
  std::string text;
  for (const OutputErrors& o : outputs) {
    text += std::string(oracle::Name(o.output)) + " " + std::string(o.part) + " " +
            std::to_string(o.units.Judged()) + "\n";
  }
  return text;
}

// Fails if an honest kernel is suspect by its own contract, or by any that it keeps, on ordinary,
// confident or tiny problems; or if an output is not compared.
TEST(HonestErrorTier, HonestTargetsAreClean) {
  const std::vector<Shape> shapes = {{},
                                     {.dtype = kernel::DType::kF16, .temperature = 0.7F},
                                     {.dtype = kernel::DType::kF32, .hidden = 1, .weight = 1},
                                     {.hidden = 8, .weight = 0.2F},
                                     {.n = 9, .v = 17, .h = 5},
                                     {.n = 3, .v = 200, .h = 64, .temperature = 3},
                                     {.n = 16, .v = 1, .h = 16}};
  unsigned seed = 0;
  for (const Shape& shape : shapes) {
    const Drawn drawn(shape, ++seed);
    for (const auto& [target, contract] : {std::pair{"host", ""},
                                           {"host", "fp32"},
                                           {"host", "black-box"},
                                           {"host-hopper", ""},
                                           {"host-hopper", "black-box"}}) {
      // A vocabulary of one column has no error at all.
      const HonestErrors errors = drawn.Run(target, contract);
      if (shape.v > 1) {
        EXPECT_EQ(errors.outputs.size(), 6U - (shape.v <= shape.n ? 1 : 0)) << Text(errors.outputs);
      }
      for (const OutputErrors& o : errors.outputs) {
        EXPECT_FALSE(o.units.Suspect()) << target << " as " << contract << ", shape " << seed << "\n"
                                        << Text(errors.outputs);
      }
    }
  }
}

struct Planted {
  const char* defect;
  const char* contract;
  Output output;
  const char* shortcut = nullptr;  // that explains it all; null: none does
};

class Defects : public ::testing::TestWithParam<Planted> {};

INSTANTIATE_TEST_SUITE_P(
    OfBoundsAlone, Defects,
    ::testing::Values(
        Planted{"logits-rounded", "black-box", Output::kLogprob, "logits rounded to bf16"},
        Planted{"logits-fp16", "black-box", Output::kEntropy, "logits rounded to fp16"},
        Planted{"logprob-rounded", "black-box", Output::kLogprob, "logprob stored in bf16"},
        Planted{"tail-dropped", "black-box", Output::kLse},
        Planted{"inputs-tf32", "fp32", Output::kLogprob},
        Planted{"probability-rounded", "pytorch-fp32-logits", Output::kGradHidden,
                "probabilities rounded to bf16 before the label's 1 is subtracted"},
        Planted{"grad-hidden-accumulator", "pytorch-fp32-logits", Output::kGradHidden}),
    [](const auto& planted) {
      std::string name = planted.param.defect;
      std::erase(name, '-');
      return name;
    });

// Fails if the second tier does not see a defect, if a shortcut is not named or another one is, or if
// one explains a bug. `worst` is printed: below 1 no bound is broken.
TEST_P(Defects, AreSuspect) {
  Shape shape{.n = 24, .v = 800, .h = 256};
  if (std::string(GetParam().defect) == "inputs-tf32") shape.dtype = kernel::DType::kF32;
  double worst = 0;
  const HonestErrors errors =
      Drawn(shape, 11).Run(std::string("mutant:") + GetParam().defect, GetParam().contract, &worst);
  RecordProperty("error_over_bound", std::to_string(worst));
  EXPECT_TRUE(errors.Suspect(GetParam().output)) << Text(errors.outputs) << "error/bound " << worst;
  if (GetParam().shortcut != nullptr) {
    EXPECT_EQ(errors.explanation.shortcuts, std::vector<std::string>{GetParam().shortcut});
    EXPECT_TRUE(errors.explanation.unexplained.empty()) << Text(errors.explanation.left);
  } else {
    EXPECT_FALSE(errors.explanation.unexplained.empty()) << errors.explanation.shortcuts.front();
  }
}

}  // namespace
}  // namespace plumbline::fuzz

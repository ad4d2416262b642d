// SPDX-License-Identifier: Apache-2.0
//
// The second tier on what targets really compute: honest ones are clean, defects whose errors lie deep
// inside the rigorous bounds are suspect.

#include "fuzz/baseline/honest_errors.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/baseline/drawn_problem.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;
using testing::Drawn, testing::Shape, testing::Text;

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
        Planted{"grad-hidden-accumulator", "pytorch-fp32-logits", Output::kGradHidden,
                "grad_hidden accumulated in bf16 every 256 columns"}),
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

// Fails if a rounding whose own errors are not the target's is said to explain a bug because baselines
// that take it err as much: "lse kept in bf16 for backward" did where probabilities are too small by
// one factor.
TEST(HonestErrors, ABugIsNoRounding) {
  const Drawn drawn({.n = 24, .v = 790, .h = 128, .weight = 0.01F, .temperature = 0.7F}, 4);
  for (const char* defect : {"tail-unmasked", "backward-tail-unmasked", "entropy-grad-without-h",
                             "tail-dropped", "entropy-grad-dropped"}) {
    const HonestErrors errors = drawn.Run(std::string("mutant:") + defect, "pytorch-fp32-logits");
    EXPECT_EQ(errors.explanation.Words(), "") << defect;
  }
}

// Fails if a form of the entropy, whose baselines err as much as logits of rounded operands where these
// are large, is said to explain them: lse is off as well, or logprob where there is no lse, and the
// form has no part in it.
TEST(HonestErrors, AFormExplainsNoLogits) {
  for (const bool has_lse : {true, false}) {
    for (const float scale : {30.0F, 100.0F}) {
      Drawn drawn({.n = 32,
                   .v = 600,
                   .h = 64,
                   .dtype = kernel::DType::kF32,
                   .hidden = scale,
                   .temperature = 0.7F},
                  1);
      if (!has_lse) drawn.LeaveOutLse();
      const HonestErrors errors = drawn.Run("mutant:inputs-tf32", "pytorch-fp32-logits");
      EXPECT_TRUE(errors.Suspect(Output::kEntropy)) << Text(errors.outputs);
      EXPECT_EQ(errors.explanation.Words(), "") << scale << (has_lse ? "" : " without lse");
    }
  }
}

// Fails if what planes lose of operands below 2^-110 is not part of what honest kernels err: by a drawn
// case of 300 000 host-hopper was suspect at 2800 times that.
TEST(HonestErrors, PlanesLoseWhatIsTiny) {
  for (const float factor : {0x1p-100F, 0x1p-118F, 0x1p-124F}) {
    Drawn drawn({.n = 24,
                 .v = 300,
                 .h = 33,
                 .dtype = kernel::DType::kF32,
                 .hidden = 0x1p-20F,
                 .weight = 0x1p18F},
                11);
    drawn.ScaleUpstream(factor);
    const HonestErrors errors = drawn.Run("host-hopper", "");
    EXPECT_FALSE(errors.AnySuspect()) << factor << "\n" << Text(errors.outputs);
    EXPECT_TRUE(drawn.Run("mutant:entropy-grad-extra-one", "").AnySuspect()) << factor;
  }
}

// Fails if columns of no probability, whose logits are large, are part of what honest kernels err: 1400
// times that is then clean.
TEST(HonestErrors, SuppressedTokensHideNothing) {
  Drawn drawn({.n = 24, .v = 800}, 11);
  drawn.Suppress(100, -1e8F);
  EXPECT_TRUE(drawn.Run("mutant:logits-rounded", "black-box").Suspect(Output::kLogprob));
  EXPECT_TRUE(drawn.Run("mutant:label-off-by-one", "fp32").Suspect(Output::kLogprob));
  EXPECT_FALSE(drawn.Run("host", "black-box").AnySuspect());
}

// Fails if what honest kernels err before they round few elements to 16 bits is taken for what is left
// beyond the rounding where all elements err alike, as with d_logits in 16 bits, or if it has a
// rounding that the contract declares: every gradient of fewer than 64 elements is clean then.
TEST(HonestErrors, FewElementsOf16Bits) {
  const Drawn drawn({.n = 24, .v = 800, .h = 48, .gradients = kernel::DType::kBf16}, 11);
  for (const char* defect : {"entropy-grad-dropped", "entropy-grad-extra-one"}) {
    const HonestErrors errors = drawn.Run(std::string("mutant:") + defect, "black-box");
    EXPECT_TRUE(errors.AnySuspect()) << defect << "\n" << Text(errors.outputs);
  }
  std::string error;
  const auto target = LoadTarget("host", &error);
  ASSERT_TRUE(target) << error;
  oracle::Contract declared = target->description().contract;
  for (const Output o : {Output::kGradHidden, Output::kGradWeight}) {
    declared.outputs[static_cast<size_t>(o)] = kernel::DType::kBf16;
  }
  for (const kernel::DType stored : {kernel::DType::kBf16, kernel::DType::kF32}) {
    const Drawn wide({.n = 24, .v = 800, .h = 48, .gradients = stored}, 11);
    for (const char* defect : {"saved-sum-rounded", "probability-rounded", "grad-hidden-accumulator"}) {
      const HonestErrors errors = wide.Run(std::string("mutant:") + defect, declared);
      EXPECT_TRUE(errors.AnySuspect()) << defect << "\n" << Text(errors.outputs);
    }
    EXPECT_FALSE(wide.Run("host", declared).AnySuspect());
  }
}

// Fails if a contract's own accumulator of 16 bits is missing in its baselines, so that a kernel that
// does what it declares is suspect; or if dtype and chunk are not the contract's, so that one that
// rounds to eight times coarser numbers, 16 times as often, is clean.
TEST(HonestErrors, AnAccumulatorOf16BitsIsTheContracts) {
  std::string error;
  const auto target = LoadTarget("mutant:grad-hidden-accumulator", &error);
  ASSERT_TRUE(target) << error;
  oracle::Contract contract = target->description().contract;
  contract.accumulator = kernel::DType::kBf16;
  contract.row_chunk = 4096;
  const Drawn drawn({.n = 16, .v = 4000, .h = 128}, 5);
  contract.vocab_chunk = 256;
  EXPECT_FALSE(drawn.Run("mutant:grad-hidden-accumulator", contract).Suspect(Output::kGradHidden));
  contract.accumulator = kernel::DType::kF16;
  contract.vocab_chunk = 4096;
  EXPECT_TRUE(drawn.Run("mutant:grad-hidden-accumulator", contract).Suspect(Output::kGradHidden));
}

}  // namespace
}  // namespace plumbline::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// Foreign kernels against the second tier: baselines of the contract that each declares.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fuzz/baseline/drawn_problem.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::fuzz {
namespace {

using testing::Drawn, testing::Shape;

class HonestKernelErrors : public ::testing::TestWithParam<honest::Kernel> {};

// Fails if a declared form or rounding is missing in the baselines, so that a kernel that does what it
// declares is suspect: operands rounded in the gradients' products, plain forms, a label or recomputed
// logits in another order, exp(x - lse), rough functions. On confident rows each of these alone makes
// ten to seven hundred units.
TEST_P(HonestKernelErrors, AreNotSuspect) {
  const kernel::DType bf16 = kernel::DType::kBf16;
  unsigned seed = 0;
  for (const Shape& shape :
       {Shape{.n = 16, .v = 600, .h = 128, .gradients = bf16},
        Shape{.n = 16, .v = 500, .h = 96, .hidden = 4, .weight = 0.3F, .gradients = bf16},
        Shape{.n = 12,
        .v = 300,
        .h = 64,
        .hidden = 6,
        .weight = 0.3F,
        .temperature = 0.7F,
        .gradients = bf16}}) {
    const HonestErrors errors =
        Drawn(shape, ++seed)
            .Run(std::string("plugin:" HONEST_PLUGINS "/honest-") + GetParam().name + ".so", "");
    EXPECT_GE(errors.outputs.size(), 3U);
    EXPECT_FALSE(errors.AnySuspect()) << "shape " << seed << "\n" << testing::Text(errors.outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HonestKernelErrors, ::testing::ValuesIn(honest::Kernels()),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::fuzz
